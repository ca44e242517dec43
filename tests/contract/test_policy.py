"""Each admission policy keeps its promise: what it allows passes, what it denies is refused with the stated message."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provisioner.admission.policy import PARAMETERS, Policy
from provisioner.catalog.pack import pack_root
from tests.contract import schemas
from tests.contract.policy_samples import ROOT, Sample, denials, policies, samples

_FOREIGN_GROUPS = ("cilium.io/", "crd.projectcalico.org/", "leaderworkerset.x-k8s.io/")
"""Kinds whose schemas are not in the folder of public schemas."""


def _folders() -> list[str]:
    return sorted(path.parent.name for path in ROOT.glob("*/policy.yaml"))


def _raw(name: str) -> Any:
    return yaml.safe_load((ROOT / name / "policy.yaml").read_text())


def _policy(name: str) -> Policy:
    return next(policy for policy in policies() if policy.name == name)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_policy_decides_its_sample_as_the_folder_says(sample: Sample) -> None:
    """Ledger: SEC-06, GPU-01, GPU-02."""
    found = denials(_policy(sample.policy), sample)
    if sample.path.parent.name == "allowed":
        assert not found, [str(finding) for finding in found]
        return
    assert sample.expects, "a denied sample says what it expects: `# expects: …`"
    fields, _, rest = sample.expects.partition(": ")
    assert set(fields.split(", ")) <= {finding.field for finding in found}, [str(finding) for finding in found]
    texts = [f"{finding.message}; {finding.hint}" for finding in found]
    assert any(text.startswith(rest) for text in texts), texts
    assert {finding.reason for finding in found} == {"PolicyDenied"}


@pytest.mark.parametrize("name", _folders())
def test_policy_has_samples_of_both_kinds(name: str) -> None:
    count = {
        kind: sum(1 for s in samples() if s.policy == name and s.path.parent.name == kind)
        for kind in ("allowed", "denied")
    }
    assert count["allowed"] >= 2
    assert count["denied"] >= 2


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_sample_is_a_valid_object(sample: Sample) -> None:
    for value in filter(None, (sample.obj, sample.old)):
        if value["apiVersion"].startswith(_FOREIGN_GROUPS):
            continue
        faults = schemas.faults_of_builtin if schemas.is_builtin(value) else schemas.faults_of_custom
        assert not faults(value)


@pytest.mark.parametrize("name", _folders())
def test_policy_is_a_valid_object(name: str) -> None:
    assert not schemas.faults_of_builtin(_raw(name))


@pytest.mark.parametrize("name", _folders())
def test_policy_fails_closed_and_says_why(name: str) -> None:
    policy = _raw(name)
    assert policy["metadata"]["name"] == f"{name}.tenantry.io"
    assert policy["spec"]["failurePolicy"] == "Fail"
    for validation in policy["spec"]["validations"]:
        assert "message" in validation or "messageExpression" in validation
        assert validation["reason"] in ("Forbidden", "Invalid")
        text = validation.get("message") or validation["messageExpression"]
        assert ": " in text
        assert "; " in text


@pytest.mark.parametrize("name", _folders())
def test_policy_may_stand_in_a_template(name: str) -> None:
    text = (ROOT / name / "policy.yaml").read_text()
    assert not any(mark in text for mark in ("{{", "{%", "{#", "}}", "%}", "#}"))
    environment = Environment(loader=FileSystemLoader(pack_root()), undefined=StrictUndefined, autoescape=False)
    assert yaml.safe_load(environment.from_string(text).render()) == yaml.safe_load(text)


def test_policies_agree_on_what_they_share() -> None:
    shared = ("pods", "at", "containers", "volumes")
    for variable in shared:
        texts = {
            entry["expression"]
            for name in _folders()
            for entry in _raw(name)["spec"].get("variables", ())
            if entry["name"] == variable and name != "route-domain"
        }
        assert len(texts) == 1, variable
    selectors = [_raw(name)["spec"]["matchConstraints"]["namespaceSelector"] for name in _folders()]
    exempt = [frozenset(selector["matchExpressions"][0]["values"]) for selector in selectors]
    assert min(exempt, key=len) == frozenset.intersection(*exempt)
    for name, names in zip(_folders(), exempt, strict=True):
        assert name == "pod-security-level" or names == min(exempt, key=len)


@pytest.mark.parametrize("name", _folders())
def test_binding_names_the_policy_and_the_parameter_that_it_reads(name: str) -> None:
    binding = _binding(name)
    assert not schemas.faults_of_builtin(binding)
    assert binding["spec"]["policyName"] == f"{name}.tenantry.io"
    assert binding["spec"]["validationActions"] == ["Deny", "Audit"]
    reference = binding["spec"]["paramRef"]
    kind = _policy(name).param_kind or "ConfigMap"
    assert reference["name"] == PARAMETERS[kind]
    assert reference["parameterNotFoundAction"] == "Deny"
    assert reference.get("namespace") == ("tenantry-policy" if kind == "ConfigMap" else None)


def test_policies_that_read_the_site_refuse_where_its_settings_are_missing() -> None:
    for policy, sample in itertools.product(policies(), samples()):
        if policy.param_kind == "ConfigMap" and sample.policy == policy.name:
            found = policy.denials(sample.obj, params=None, operation=sample.operation, old=sample.old)
            touched = bool(found)
            exempt = sample.obj["metadata"].get("namespace") in ("kube-system", "tenantry-stack")
            assert touched is not exempt


def _binding(name: str) -> Any:
    environment = Environment(
        loader=FileSystemLoader(pack_root()),
        undefined=StrictUndefined,
        trim_blocks=True,
        autoescape=False,
    )
    template = environment.get_template("policies/admission/_binding.yaml.j2")
    return yaml.safe_load(template.render(policy=name))
