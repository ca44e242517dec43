"""How objects of the Platform find each other: pools and node types, versions, slips of names, parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.lint.rules.platform._parameters import is_secret_name, read_given, refusal
from provisioner.lint.rules.platform._platform import allows, parts_of
from tests.lint.worlds import lint

PROVIDER = """
apiVersion: management.loft.sh/v1
kind: NodeProvider
metadata: {name: cloud}
spec:
  properties: {region: eu-central-1}
  terraform:
    nodeTemplate: {git: {repository: "https://git.example.com/nodes.git", tag: v1.0.0}}
    nodeTypes:
      - {name: small, maxCapacity: 9, resources: {cpu: "4", memory: 16Gi}, properties: {cores: "4"}}
      - name: large
        maxCapacity: 9
        resources: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8"}
        properties: {cores: "64", gpu-model: h100}
"""
VALUES = """
controlPlane: {service: {spec: {type: LoadBalancer}}}
privateNodes:
  enabled: true
  autoNodes:
    - provider: cloud
      static:
        - {name: nodes, quantity: 1, nodeTypeSelector: [TERMS]}
"""


@pytest.mark.parametrize(
    ("terms", "is_met"),
    [
        ("{property: gpu-model, value: h100}", True),
        ("{property: gpu-model, operator: NotIn, values: [h100]}", True),
        ("{property: gpu-model, operator: DoesNotExist}, {property: cores, value: '64'}", False),
        ("{property: cores, operator: Gt, value: '16'}", True),
        ("{property: cores, operator: Gt, value: '64'}", False),
        ("{property: region, value: eu-central-1}", True),
        ("{property: region, value: us-east-1}", False),
        ("{property: gpu-modell, operator: Exists}", False),
        ("{property: topology.kubernetes.io/zone, value: eu-central-1a}", True),
        ("{property: vcluster.com/node-type, operator: NotIn, values: [cloud.small, cloud.large]}", False),
    ],
)
def test_selectors_take_the_types_that_the_platform_would_take(tmp_path: Path, terms: str, is_met: bool) -> None:
    (tmp_path / "provider.yaml").write_text(PROVIDER)
    (tmp_path / "vcluster.yaml").write_text(VALUES.replace("TERMS", terms))
    found = {finding.rule for finding in lint(tmp_path)}
    assert ("pool-selects-nothing" in found) is not is_met


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("argocd_main", "reference-misspelt"),
        ("argocd-mian", "reference-misspelt"),
        ("argocd-second", "reference-unknown"),
        ("argocd-main", None),
    ],
)
def test_a_slip_of_a_name_is_told_from_another_name(tmp_path: Path, name: str, rule: str | None) -> None:
    (tmp_path / "vcluster.yaml").write_text(f"integrations: {{argoCD: {{enabled: true, connector: {name}}}}}\n")
    (tmp_path / "connector.yaml").write_text(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: argocd-main\n  labels: {loft.sh/connector-type: argocd}\n"
    )
    found = {finding.rule for finding in lint(tmp_path)} & {"reference-misspelt", "reference-unknown"}
    assert found == ({rule} if rule else set())


@pytest.mark.parametrize(
    "name", ["hfToken", "apiKey", "API_KEY", "db_password", "token", "clientSecret", "nvidiaApiKey"]
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["maxTokens", "tokenSecretName", "keyName", "tokenizer", "pullSecret", "model", "monkey"]
)
def test_names_that_only_remind_of_secrets_are_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("parameter", "value", "why"),
    [
        ({"type": "number", "min": 1, "max": 4}, "4", None),
        ({"type": "number", "min": 1, "max": 4}, "5", "is above its max 4"),
        ({"type": "number"}, "two", "is not a number"),
        ({"type": "boolean"}, "yes", "is not true or false"),
        ({"options": ["a", "b"]}, "c", "is none of its options"),
        ({"validation": "^v[0-9]+$"}, "v1", None),
        ({"validation": "^v[0-9]+$"}, "1", "does not match its validation"),
        ({"validation": "^(a+)+$"}, "a" * 40 + "b", None),
        ({"validation": "("}, "x", None),
    ],
)
def test_a_parameter_refuses_what_the_platform_refuses(
    parameter: dict[str, object], value: str, why: str | None
) -> None:
    assert refusal(parameter, value) == why


@given(st.text(max_size=80))
def test_any_text_may_be_given_as_parameters(text: str) -> None:
    read_given(text)


def test_allowed_names_are_whole_or_all_of_a_provider() -> None:
    entries = [{"name": "aws.*"}, {"name": "metal3.gpu-h100"}]
    assert allows(entries, "aws.g6-xlarge")
    assert allows(entries, "metal3.gpu-h100")
    assert not allows(entries, "metal3.gpu-h200")
    assert not allows(entries, "awsome.g6")


@pytest.mark.parametrize(
    ("text", "parts"), [("1.2.X", ("1", "2", "x")), ("1.2", None), ("v1.2.3", None), ("1.2.3.4", None)]
)
def test_versions_of_templates_have_three_parts(text: str, parts: tuple[str, str, str] | None) -> None:
    assert parts_of(text) == parts
