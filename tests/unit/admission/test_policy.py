"""Policies evaluated offline: every object gets a verdict, and what cannot be read is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.admission.policy import Policy, load_policies
from provisioner.admission.policy_expression import Expression
from provisioner.catalog.pack import pack_root
from provisioner.domain.errors import RejectedError

POLICIES = load_policies(pack_root() / "policies" / "admission")
SETTINGS = {
    "kind": "ConfigMap",
    "data": {"registries": "registry.example.com", "domain": "example.com", "tenant": "acme", "runtimeClass": "vnode"},
}
RULE = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: sample.tenantry.io
  annotations:
    tenantry.io/refuses: Whatever is not small
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [configmaps]
  variables:
    - name: size
      expression: object.data.size()
  validations:
    - expression: variables.size < 3
      message: "data: too large; take something out"
      reason: Invalid
"""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "name": JSON,
        "image": JSON,
        "resources": JSON | st.fixed_dictionaries({}, optional={"limits": JSON, "requests": JSON}),
        "securityContext": JSON | st.fixed_dictionaries({}, optional={"capabilities": JSON, "runAsUser": JSON}),
        "env": JSON | st.lists(JSON, max_size=2),
        "ports": JSON | st.lists(JSON, max_size=2),
        "volumeMounts": JSON,
    },
)
POD_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": JSON | st.lists(CONTAINER | JSON, max_size=2),
        "initContainers": JSON | st.lists(CONTAINER, max_size=2),
        "ephemeralContainers": JSON,
        "volumes": JSON | st.lists(JSON, max_size=2),
        "securityContext": JSON,
        "hostNetwork": JSON,
        "automountServiceAccountToken": JSON,
        "runtimeClassName": JSON,
        "resourceClaims": JSON,
    },
)


def _policy(tmp_path: Path, text: str) -> Policy:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "policy.yaml").write_text(text)
    return load_policies(tmp_path)[0]


def _config_map(data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data}


@given(spec=POD_SPEC | JSON, metadata=JSON | st.fixed_dictionaries({"namespace": st.text(max_size=8)}))
@settings(max_examples=150, deadline=None)
def test_any_pod_spec_gets_a_verdict_from_every_policy(spec: Any, metadata: Any) -> None:
    template = {"metadata": metadata, "spec": spec}
    for obj in (
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {"template": template}},
    ):
        for policy in POLICIES:
            for params in (SETTINGS, None):
                assert all(f.reason == "PolicyDenied" and f.message for f in policy.denials(obj, params=params))


@given(spec=JSON, kind=st.sampled_from(["Service", "NetworkPolicy", "HTTPRoute", "Gateway", "Ingress", "Namespace"]))
@settings(max_examples=100, deadline=None)
def test_any_object_gets_a_verdict_from_every_policy(spec: Any, kind: str) -> None:
    groups = {"Service": "v1", "Namespace": "v1", "HTTPRoute": "gateway.networking.k8s.io/v1"}
    groups["Gateway"] = groups["HTTPRoute"]
    obj = {"apiVersion": groups.get(kind, "networking.k8s.io/v1"), "kind": kind, "metadata": spec, "spec": spec}
    for policy in POLICIES:
        for operation in ("CREATE", "UPDATE", "DELETE"):
            found = policy.denials(obj, params=SETTINGS, operation=operation, old=obj)
            assert all(f.reason == "PolicyDenied" for f in found)


@pytest.mark.parametrize(
    "spec",
    [None, {}, [], "", {"containers": None}, {"containers": [{"image": 2**70}]}, {"containers": [{"image": "\ud800"}]}],
    ids=["null", "empty", "list", "text", "null-containers", "too-large-a-number", "half-a-character"],
)
def test_pod_that_cannot_be_read_is_refused(spec: Any) -> None:
    pod = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": {"template": spec}}
    refused = {policy.name for policy in POLICIES if policy.denials(pod, params=SETTINGS)}
    assert {"image-digest", "host-access", "run-as-non-root"} <= refused


def test_object_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    (found,) = _policy(tmp_path, RULE).denials(_config_map({"a": deep}), params=None)
    assert found.message == "the policy cannot be asked about this object: nested deeper than 64"


def test_finding_has_field_message_and_hint(tmp_path: Path) -> None:
    (found,) = _policy(tmp_path, RULE).denials(_config_map({"a": "1", "b": "2", "c": "3"}), params=None)
    assert (found.field, found.message, found.hint) == ("data", "too large", "take something out")


def test_finding_for_each_field_that_a_message_names() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    containers = [{"name": name, "image": "registry.example.com/a:1"} for name in ("a", "b")]
    digest = next(policy for policy in POLICIES if policy.name == "image-digest")
    found = digest.denials({**pod, "spec": {"containers": containers}}, params=None)
    assert [f.field for f in found] == ["spec.containers[a].image", "spec.containers[b].image"]


def test_expression_without_a_value_refuses(tmp_path: Path) -> None:
    (found,) = _policy(tmp_path, RULE).denials({**_config_map({}), "data": None}, params=None)
    assert found.message.startswith("the rule cannot be read for this object")


def test_field_that_is_null_is_a_field_not_set() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    host = next(policy for policy in POLICIES if policy.name == "host-access")
    assert not host.denials({**pod, "spec": {"containers": [], "volumes": None, "hostPID": None}}, params=None)


def test_operation_that_is_not_matched_is_not_asked_about(tmp_path: Path) -> None:
    policy = _policy(tmp_path, RULE)
    assert not policy.denials(_config_map(dict.fromkeys("abcd", "")), params=None, operation="DELETE")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("failurePolicy: Fail", "failurePolicy: Ignore"),
        ("variables.size < 3", "variables.length < 3"),
        ("object.data.size()", "object.data.size("),
        ("    resourceRules:", "    matchPolicy: Exact\n    resourceRules:"),
        ("  matchConstraints:", "  paramKind:\n    apiVersion: v1\n    kind: Secret\n  matchConstraints:"),
        ("    tenantry.io/refuses", "    tenantry.io/about"),
        ("kind: ValidatingAdmissionPolicy", "kind: Policy"),
    ],
    ids=["fails-open", "unknown-variable", "no-cel", "unknown-constraint", "unknown-parameter", "no-words", "kind"],
)
def test_policy_that_cannot_be_evaluated_offline_is_refused_at_load(tmp_path: Path, old: str, new: str) -> None:
    assert old in RULE
    with pytest.raises(RejectedError) as caught:
        _policy(tmp_path, RULE.replace(old, new))
    assert caught.value.findings[0].file == "sample/policy.yaml"


def test_every_message_of_the_pack_is_an_expression() -> None:
    for policy in POLICIES:
        for validation in policy.validations:
            assert validation.message_expression is None or Expression.compiled(validation.message_expression)
