"""What the policies of a tier say to the manifests of a plan, all of them together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.admission import forecast_endpoint
from provisioner.admission.manifests import ManifestJudge, tree_findings, untold
from provisioner.admission.policy import Policy, load_policies
from provisioner.catalog.pack import pack_root
from provisioner.domain.errors import RejectedError
from provisioner.rendering.pack import compile_pack
from tests.unit.rendering.examples import catalog, example_pack, example_plan, example_site

SETTINGS = {"kind": "ConfigMap", "data": {"registries": "registry.example.com", "tenant": "acme"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}}
DENY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "default-deny", "namespace": "n"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}


def policy(name: str) -> Policy:
    return next(found for found in load_policies(pack_root() / "policies" / "admission") if found.name == name)


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    version = "leaderworkerset.x-k8s.io/v1" if kind == "LeaderWorkerSet" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "chat", "namespace": "n"}, "spec": spec}


def test_tree_is_judged_with_the_network_policies_in_it() -> None:
    present = [policy("network-default-deny-present")]
    assert not list(tree_findings(present, [POD, DENY], settings=SETTINGS))
    elsewhere = {**DENY, "metadata": {"name": "default-deny", "namespace": "other"}}
    [found] = tree_findings(present, [POD, elsewhere], settings=SETTINGS)
    assert (found.rule, found.object) == ("policy-network-default-deny-present", "Pod n/p")
    assert found.message.endswith("there is no NetworkPolicy default-deny")
    assert found.field == "metadata.namespace"
    assert found.hint


@pytest.mark.parametrize(
    "made",
    [
        workload("StatefulSet", template={"spec": {"containers": []}}),
        workload(
            "LeaderWorkerSet",
            leaderWorkerTemplate={role: {"spec": {}} for role in ("leaderTemplate", "workerTemplate")},
        ),
    ],
    ids=["stateful-set", "leader-worker-set"],
)
def test_policy_about_pods_alone_is_asked_about_those_that_a_workload_describes(made: dict[str, Any]) -> None:
    [found] = tree_findings([policy("network-default-deny-present")], [made], settings=SETTINGS)
    assert found.object == f"{made['kind']} n/chat"


@pytest.mark.parametrize(
    "made", [{}, {"kind": "StatefulSet", "spec": {"template": []}}, {"metadata": 1, "kind": "Job"}]
)
def test_what_is_no_workload_describes_no_pods(made: dict[str, Any]) -> None:
    assert not list(tree_findings([policy("network-default-deny-present")], [made], settings=SETTINGS))


def test_what_a_template_of_ones_own_does_wrong_is_found_with_object_field_and_fix(tmp_path: Path) -> None:
    part = "applications/runtimes/_shared/replica"
    shipped = next((pack_root() / part).glob("*service*.j2"))
    (tmp_path / part).mkdir(parents=True)
    (tmp_path / part / shipped.name).write_text(f"{shipped.read_text()}".replace("spec:", "spec:\n  type: NodePort", 1))
    pack = compile_pack(catalog(), example_site(), overlay=tmp_path)
    planned = example_plan("dedicated")
    found = ManifestJudge(pack).findings(planned)
    assert {finding.rule for finding in found} == {"policy-service-exposure"}
    assert {finding.field for finding in found} == {"spec.type"}
    assert len(found) == planned.runtime.max_replicas
    assert all(finding.hint and finding.object.startswith("Service inference/") for finding in found)


def test_tier_that_binds_no_policy_is_not_judged() -> None:
    tiers = {name: tier.model_copy(update={"policies": ()}) for name, tier in catalog().tiers.items()}
    pack = compile_pack(replace(catalog(), tiers=tiers), example_site())
    assert ManifestJudge(pack).findings(example_plan("dedicated")) == ()


SPEECH = {
    "name": "speech",
    "tenant": "acme",
    "model": "nvidia/parakeet-tdt-0.6b-v3",
    "region": "eu-central-1",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 1},
}


@pytest.mark.parametrize(("profile", "refusing"), [("dev", set()), ("prod", {"policy-image-digest"})])
def test_only_prod_wants_images_by_digest(profile: str, refusing: set[str]) -> None:
    site = example_site().model_copy(update={"profile": profile})
    planned = forecast_endpoint(SPEECH, catalog=catalog(), site=site)
    assert planned.plan is not None
    refusals = ManifestJudge(compile_pack(catalog(), site)).findings(planned.plan)
    assert {finding.rule for finding in refusals} == refusing
    assert untold(refusals, planned.findings) == ()
    assert untold(refusals, ()) == refusals


def test_policy_of_ones_own_that_cannot_be_read_is_told_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "policies" / "admission" / "image-digest"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text("kind: Policy\n")
    pack = compile_pack(catalog(), example_site(), overlay=tmp_path)
    with pytest.raises(RejectedError) as caught:
        ManifestJudge(pack).findings(example_plan("dedicated"))
    assert caught.value.findings[0].file == "image-digest/policy.yaml"


def test_policy_that_a_tier_misspells_is_told_with_the_tiers_file() -> None:
    tiers = {name: tier.model_copy(update={"policies": ("image-digets",)}) for name, tier in catalog().tiers.items()}
    judge = ManifestJudge(compile_pack(replace(catalog(), tiers=tiers), example_site()))
    with pytest.raises(RejectedError) as caught:
        judge.findings(example_plan("dedicated"))
    [found] = caught.value.findings
    assert (found.rule, found.file, found.field) == ("unknown-policy", "templates/dedicated/tier.yaml", "policies")
    assert "did you mean `image-digest`?" in str(found.hint)
    with pytest.raises(RejectedError):
        judge.read_policies()


def test_judge_says_the_same_twice() -> None:
    judge, planned = ManifestJudge(example_pack()), example_plan("multinode")
    assert judge.findings(planned) == judge.findings(planned) == ()
