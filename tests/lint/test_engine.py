"""The whole linter: order, silence, joined folders, and rules that never stumble over what people write."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.finding import Finding, Severity
from provisioner.lint import engine
from provisioner.lint.engine import lint_world
from provisioner.lint.reading import read_world
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules import every_rule
from provisioner.lint.world import World
from tests.lint.worlds import catalog, lint, told

SAMPLES = Path(__file__).parent
MUTANTS_EACH = 2


def config_map(name: str = "settings", *, silence: str = "", data: str = "on: a") -> str:
    """A ConfigMap whose key changes, and perhaps a reason why that is fine."""
    annotations = f"  annotations:\n    lint.tenantry.io/ignore: {json.dumps(silence)}\n" if silence else ""
    return f"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{annotations}data:\n  {data}\n"


def rules(findings: tuple[Finding, ...]) -> list[str]:
    """The rules that found something, in order."""
    return [finding.rule for finding in findings]


def written(folder: Path, **files: str) -> Path:
    """A folder with YAML files."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_findings_stand_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    written(tmp_path, b=config_map("b") + config_map("c"), a=config_map("a"))
    found = [(Path(finding.file or "").name, finding.line) for finding in lint(tmp_path)]
    assert found == [("a.yaml", 7), ("b.yaml", 7), ("b.yaml", 14)]


def test_a_reason_silences_a_rule_on_its_object_only(tmp_path: Path) -> None:
    silence = "yaml-key-changes: the reader wants it"
    written(tmp_path, a=config_map("a", silence=silence) + config_map("b"))
    assert [finding.object for finding in lint(tmp_path)] == ["ConfigMap b"]


ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: public}]
  rules:
    - backendRefs: [{name: chat, port: 8000}]
      timeouts: {request: 1.5h, wait: 5s}
"""


def test_what_a_schema_says_of_a_field_is_left_out_where_a_rule_explains_it(tmp_path: Path) -> None:
    written(tmp_path, route=ROUTE)
    found = [(finding.rule, finding.field) for finding in lint(tmp_path) if finding.severity is Severity.ERROR]
    assert found == [
        ("route-timeout-malformed", "spec.rules[0].timeouts.request"),
        ("schema-unknown-field", "spec.rules[0].timeouts.wait"),
    ]


@pytest.mark.parametrize("between", ["\n", "; ", ";"])
def test_several_rules_are_silenced_by_lines_or_semicolons(tmp_path: Path, between: str) -> None:
    silence = between.join(["yaml-key-changes: the reader; it wants it", "yaml-time-form: read as text everywhere"])
    written(tmp_path, a=config_map(silence=silence, data="on: 2026-01-31"))
    assert not lint(tmp_path)


def test_what_silences_nothing_nobody_or_without_reason_is_told(tmp_path: Path) -> None:
    written(
        tmp_path,
        a=config_map("a", silence="yaml-key-changes"),
        b=config_map("b", silence="yaml-key-changed: a slip"),
        c=config_map("c", silence="yaml-time-form: no time here"),
    )
    assert rules(lint(tmp_path)) == [
        "silence-without-reason",
        "yaml-key-changes",
        "silence-unknown-rule",
        "yaml-key-changes",
        "silence-of-nothing",
        "yaml-key-changes",
    ]


def test_values_of_a_tenant_cluster_are_silenced_by_a_comment(tmp_path: Path) -> None:
    written(tmp_path, vcluster="exportKubeConfig:\n  contxt: chat\n")
    assert "schema-unknown-field" in rules(lint(tmp_path))
    written(
        tmp_path, vcluster="# lint.tenantry.io/ignore: schema-unknown-field: our fork\nexportKubeConfig:\n  contxt: a\n"
    )
    assert not lint(tmp_path)


def test_an_object_in_a_text_is_silenced_by_the_object_around_it(tmp_path: Path) -> None:
    inner = "".join(f"        {line}\n" for line in config_map().splitlines())
    silence = "  annotations:\n    lint.tenantry.io/ignore: 'yaml-key-changes: the reader wants it'\n"
    for annotation, expected in (("", 1), (silence, 0)):
        text = (
            "apiVersion: management.loft.sh/v1\nkind: VirtualClusterTemplate\nmetadata:\n  name: chat\n"
            f"{annotation}spec:\n  template:\n    metadata: {{}}\n    objects: |\n{inner}"
        )
        written(tmp_path, a=text)
        found = [finding for finding in lint(tmp_path) if finding.rule == "yaml-key-changes"]
        assert len(found) == expected, told(found)


def test_a_finding_is_told_once_however_many_overlays_build_upon_it(tmp_path: Path) -> None:
    for name, text in {
        "base": "resources: [a.yaml]\n",
        "dev": "resources: [../base]\nnamespace: dev\n",
        "prod": "resources: [../base]\nnamespace: prod\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "kustomization.yaml").write_text(text)
    (tmp_path / "base" / "a.yaml").write_text(config_map())
    assert rules(lint(tmp_path)) == ["yaml-key-changes"]


def test_the_same_information_about_many_places_is_told_once_where_nobody_silenced_it(tmp_path: Path) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: POD, annotations: {lint.tenantry.io/ignore: 'IGNORE'}}\n"
        "spec:\n  containers:\n    - {name: a, image: acme/a:1.0.0, resources: {requests: {cpu: 1, memory: 1Gi}}}\n"
    )
    silence = "image-digest-missing: built from the same commit"
    written(
        tmp_path,
        a=pod.replace("POD", "a").replace("IGNORE", silence),
        b=pod.replace("POD", "b").replace("IGNORE", ""),
        c=pod.replace("POD", "c").replace("IGNORE", ""),
    )
    found = [finding for finding in lint(tmp_path) if finding.rule == "image-digest-missing"]
    assert [(finding.object, finding.message) for finding in found] == [
        ("Pod b", "pinning image: no digest: `acme/a:1.0.0` (and at 1 other place)")
    ]


def test_rule_ids_are_unique_and_kebab_case() -> None:
    ids = [rule.id for rule in every_rule()]
    assert len(ids) == len(set(ids))
    assert all(part.isalnum() and part.islower() for rule in ids for part in rule.split("-"))


def test_a_rule_that_fails_hides_nothing_that_others_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @rule("always-failing", Severity.ERROR)
    def failing(_world: World) -> Iterator[Hit]:
        """Fails."""
        raise TypeError("unhashable")

    monkeypatch.setattr(engine, "every_rule", lambda: (failing, *every_rule()))
    found = lint(written(tmp_path, a=config_map()))
    assert rules(found) == ["rule-failed", "yaml-key-changes"]


SOURCES = sorted(
    file
    for folder in ("rules", "correct")
    for file in (SAMPLES / folder).rglob("*.y*ml")
    if not file.relative_to(SAMPLES).parts[1].startswith(("yaml-", "file-"))
)


@pytest.mark.parametrize("part", range(8))
def test_no_rule_stumbles_over_a_field_of_another_type(tmp_path: Path, part: int) -> None:
    chance = random.Random(part)
    for number, file in enumerate(SOURCES[part::8]):
        folder = tmp_path / str(number)
        for mutant, documents in enumerate(mutants(file, chance)):
            target = folder / str(mutant) / file.name
            target.parent.mkdir(parents=True)
            target.write_text("---\n".join(json.dumps(document) + "\n" for document in documents))
        found = lint_world(read_world([folder], catalog=catalog(), kubernetes=(1, 34)))
        assert not [finding for finding in found if finding.rule == "rule-failed"], told(found)


def mutants(file: Path, chance: random.Random) -> Iterator[list[Any]]:
    """The documents of a file, each time with one field changed to a value of another type."""
    try:
        documents = list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError):
        return
    text = json.dumps(documents, default=str)
    places = list(containers(json.loads(text))) if len(text) < 100_000 else []
    for path, key in chance.sample(places, min(MUTANTS_EACH, len(places))):
        changed = copy.deepcopy(json.loads(text))
        around = changed
        for step in path:
            around = around[step]
        around[key] = chance.choice(
            [None, True, 0, -1, 1.5, 10**30, "", "text", "a: b", [], [None], [[]], {}, {"": None}]
        )
        yield changed


def containers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place in a value: the path of its container and its key there."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield path, key
        yield from containers(item, (*path, key))
