"""Strict schemas: what is found in objects of known kinds, and that the slim ones say what the public ones say."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from provisioner.domain.errors import RejectedError
from provisioner.lint.kubernetes import chosen_version, schemas_root
from provisioner.lint.openapi import strict_schema
from provisioner.lint.schemas import builtin_kinds
from tests.lint.worlds import lint

ROOT = Path(__file__).resolve().parents[3]
KINDS = ROOT / "provisioner" / "lint" / "kinds"

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: endpoints.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Endpoint, plural: endpoints}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [model, mode]
              properties:
                model: {type: string, pattern: "^[a-z]+$"}
                mode: {type: string, default: shared, enum: [shared, alone]}
                port: {x-kubernetes-int-or-string: true}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true}
                labels: {type: object, additionalProperties: {type: string}}
---
apiVersion: example.com/v1
kind: Endpoint
metadata:
  name: chat
"""


def schema_findings(folder: Path, text: str) -> set[tuple[str, str]]:
    """Rule and field of what the schema rules find in a text."""
    (folder / "a.yaml").write_text(text)
    return {(finding.rule, finding.field) for finding in lint(folder) if finding.rule.startswith("schema-")}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("{model: qwen, port: 80, free: {a: [1]}, labels: {a: b}}", set()),
        ("{model: qwen, port: http, mode: null}", set()),
        ("{model: Qwen3}", {("schema-invalid-value", "spec.model")}),
        ("{model: qwen, mode: pool}", {("schema-invalid-value", "spec.mode")}),
        ("{mode: alone}", {("schema-missing-field", "spec.model")}),
        ("{model: qwen, modle: a}", {("schema-unknown-field", "spec.modle")}),
        ("{model: qwen, labels: {a: 1}}", {("schema-wrong-type", "spec.labels.a")}),
        ("[]", {("schema-wrong-type", "spec")}),
    ],
)
def test_a_definition_in_the_folder_is_applied_to_its_objects(
    tmp_path: Path, spec: str, found: set[tuple[str, str]]
) -> None:
    assert schema_findings(tmp_path, f"{CRD}spec: {spec}\n") == found


@pytest.mark.parametrize("broken", ["schema: 5", "schema: {openAPIV3Schema: {properties: {spec: {pattern: '('}}}}"])
def test_a_broken_definition_stops_nothing(tmp_path: Path, broken: str) -> None:
    before, _, after = CRD.partition("      schema:\n")
    text = f"{before}      {broken}\n---\n{after.partition('---')[2]}spec: {{a: b}}\n"
    assert not {rule for rule, field in schema_findings(tmp_path, text) if field.startswith("spec.a")}


def test_metadata_of_a_kind_that_nobody_knows_is_checked(tmp_path: Path) -> None:
    text = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a, lables: {a: b}}\nanything: 5\n"
    assert schema_findings(tmp_path, text) == {("schema-unknown-field", "metadata.lables")}


def test_status_and_null_are_left_alone(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: null}\nspec: {selector: null}\nstatus: {a: b}\n"
    assert not schema_findings(tmp_path, text)


def test_every_supported_version_has_the_usual_kinds() -> None:
    for minor in range(31, 37):
        kinds = builtin_kinds((1, minor))
        assert ("apps", "v1", "Deployment") in kinds
        assert ("", "v1", "Service") in kinds
    assert ("resource.k8s.io", "v1", "DeviceClass") in builtin_kinds((1, 34))
    assert ("resource.k8s.io", "v1", "DeviceClass") not in builtin_kinds((1, 33))


def public_schemas() -> Path:
    """The folder of the public schemas."""
    folder = os.environ.get("TENANTRY_SCHEMAS")
    if folder is None:
        pytest.skip("needs schemas: TENANTRY_SCHEMAS")
    return Path(folder)


def test_shipped_schemas_are_those_that_the_public_ones_give() -> None:
    files = runpy.run_path(str(ROOT / "tools" / "slim_schemas.py"))["slim_files"](public_schemas())
    assert {name: (KINDS / name).read_text() for name in files} == files


def test_a_slim_schema_written_out_is_the_strict_public_one() -> None:
    for group, pattern in {
        "argoproj.io": "argo-cd/*.yaml",
        "keda.sh": "keda-v2.20.2/*.yaml",
        "gateway.networking.k8s.io": "gateway-api-v1.6.1-standard/gateway.networking.k8s.io_*routes.yaml",
    }.items():
        slim = orjson.loads((KINDS / f"{group}.json").read_bytes())
        for file in public_schemas().glob(pattern):
            spec = yaml.safe_load(file.read_text())["spec"]
            for version in spec["versions"]:
                strict = strict_schema(version["schema"]["openAPIV3Schema"])
                strict["properties"]["status"] = {}
                name = f"{version['name']}/{spec['names']['kind']}"
                assert written_out(slim["kinds"][name], slim["$defs"]) == strict


def written_out(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with its references replaced by what they stand for."""
    if isinstance(schema, list):
        return [written_out(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return written_out(definitions[reference.rpartition("/")[2]], definitions)
    return {key: written_out(item, definitions) for key, item in schema.items()}


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas_root.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(RejectedError, match="not installed: jsonschema_rs") as refused:
        schemas_root()
    assert refused.value.hint == "pip install 'tenantry[lint]'"


def test_a_version_that_is_not_supported_is_refused_with_those_that_are() -> None:
    assert chosen_version("v1.34.2") == (1, 34)
    for text in ("1.20", "2.0", "latest", "1.999", ""):
        with pytest.raises(RejectedError, match="not supported") as refused:
            chosen_version(text)
        assert refused.value.hint is not None
        assert refused.value.hint.startswith("supported: 1.31 to 1.")


def test_values_with_a_fault_before_a_text_that_is_filled_in_later_are_checked(tmp_path: Path) -> None:
    (tmp_path / "vcluster.yaml").write_text(
        "privateNodes:\n  enabled: true\n  autoNodes:\n    - provider: gcp\n      dynamic:\n"
        "        - {name: gpu, limits: {nodes: 4}}\n"
        "integrations:\n  argoCD: {enabled: true, connector: main}\n"
        "deploy:\n  argoCD:\n    applications:\n"
        '      - {name: "{{ .Values.loft.virtualClusterName }}-chat", template: {name: chat}}\n'
    )
    rules = {finding.rule for finding in lint(tmp_path)}
    assert "pool-limit-not-text" in rules
    assert "rule-failed" not in rules
