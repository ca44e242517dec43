"""Changes of the pack, previewed: what each reaches, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from provisioner.admission import admit_endpoint
from provisioner.catalog.pack import example_site
from provisioner.domain.errors import RejectedError
from provisioner.preview import phrases
from provisioner.preview.effect import Effect
from provisioner.preview.verdict import exit_code
from provisioner.rendering.compiler import compile_templates
from tests.unit.preview_units.repository import MODELS, Workplace, failures, git, tiers

POD = "applications/runtimes/_shared/pod.j2"
GRACE = "terminationGracePeriodSeconds: "
EVERY = ["dedicated", "isolated", "multinode", "partitioned", "shared"]


def slower(workplace: Workplace) -> None:
    """Change one line of a part that every tier's pods are made of."""
    [line] = [line for line in (workplace.folder / POD).read_text().splitlines() if GRACE in line]
    workplace.edit(POD, line, line.partition(GRACE)[0] + f"{GRACE}77")


def fleet(*requests: dict[str, Any]) -> tuple[bytes, str]:
    """A fleet of endpoints with these requests."""
    entries = [
        {
            "id": f"ep-{number:010}",
            "tenant": request["tenant"],
            "request": request,
            "templateVersion": "1.0.0",
            "replicas": 1,
        }
        for number, request in enumerate(requests)
    ]
    return json.dumps({"endpoints": entries}).encode(), "fleet.json"


def asking(tier: str, name: str, **changes: Any) -> dict[str, Any]:
    """A request of a tier."""
    scaling = {"minReplicas": 1, "maxReplicas": 2}
    model = "Qwen2-VL-2B-Instruct"
    asked = {"name": name, "tenant": "acme", "model": model, "region": "eu-central-1", "tier": tier, "scaling": scaling}
    return {**asked, **changes}


def test_nothing_differs_without_a_change(workplace: Workplace) -> None:
    report = workplace.preview()
    assert (report.units, report.tiers, exit_code(report)) == (0, (), 0)


def test_what_is_done_is_told_with_numbers_where_there_are_any(workplace: Workplace) -> None:
    requests = asking("dedicated", "one"), asking("shared", "two")
    workplace.preview()
    assert not [line for line in workplace.done if "endpoint" in line]
    workplace.preview(tiers=("shared",), fleet=fleet(*requests))
    assert [line for line in workplace.done if "endpoint" in line] == ["rendering 1 endpoint"]


def test_line_of_a_shared_part_reaches_every_tiers_cases_and_nothing_that_is_published(workplace: Workplace) -> None:
    slower(workplace)
    report = workplace.preview()
    assert sorted(tiers(report)) == EVERY
    changes = [change for tier in report.tiers for change in tier.changes]
    assert {change.where.published for change in changes} == {False}
    assert {field.path.rpartition(".")[2] for change in changes for field in change.fields} == {GRACE[:-2]}
    assert report.effect is Effect.PODS_RESTART
    assert exit_code(report) == 3


def test_pods_that_a_template_changes_come_as_the_revision_that_would_be_committed(workplace: Workplace) -> None:
    slower(workplace)
    report = workplace.preview(tiers=("dedicated",), fleet=fleet(asking("dedicated", "one")))
    assert [(one.unit, one.rollout.way) for one in report.impacts if one.rollout] == [("ep-0000000000", "revision")]


def test_comment_in_a_template_reaches_nothing(workplace: Workplace) -> None:
    workplace.write(POD, "{# says nothing #}" + (workplace.folder / POD).read_text())
    assert workplace.preview().units == 0


def test_template_of_one_tier_leaves_the_others_alone(workplace: Workplace) -> None:
    text = (workplace.folder / "templates/_parts/project.yaml.j2").read_text()
    workplace.write(
        "templates/isolated/project.yaml.j2", text.replace("metadata:\n", "metadata:\n  annotations: {a: b}\n", 1)
    )
    assert list(tiers(workplace.preview())) == ["isolated"]


def test_tier_that_is_asked_for_is_the_only_one_that_is_looked_at(workplace: Workplace) -> None:
    slower(workplace)
    assert list(tiers(workplace.preview(tiers=("shared",)))) == ["shared"]


def test_untracked_files_count_and_ignored_ones_do_not(workplace: Workplace) -> None:
    tier = (workplace.folder / "templates/dedicated/tier.yaml").read_text().replace("dedicated", "solo")
    workplace.write("templates/solo/tier.yaml", tier)
    workplace.write("templates/shared/.tier.yaml.swp", "<<<<<<< ")
    report = workplace.preview()
    assert {name: tier.state for name, tier in tiers(report).items()} == {"solo": "added"}


def test_two_commits_are_compared_whatever_the_working_tree_holds(workplace: Workplace) -> None:
    base = git(workplace.folder, "rev-parse", "HEAD")
    slower(workplace)
    head = workplace.commit()
    workplace.write("versions.yaml", "<<<<<<< ")
    assert sorted(tiers(workplace.preview(base=base, head=head))) == EVERY
    assert workplace.preview(base=head, head=head).units == 0


def test_change_is_compared_with_where_it_left_the_default_branch(workplace: Workplace) -> None:
    git(workplace.folder, "checkout", "-q", "-b", "change")
    slower(workplace)
    workplace.commit()
    git(workplace.folder, "checkout", "-q", "main")
    workplace.edit("templates/shared/tier.yaml", "description: ", "description: Another, ")
    workplace.commit()
    git(workplace.folder, "checkout", "-q", "change")
    report = workplace.preview()
    assert report.base.startswith("main at ")
    assert sorted(tiers(report)) == EVERY
    assert not any(change.where.published for change in tiers(report)["shared"].changes)


def test_files_that_move_without_a_change_of_what_is_rendered_reach_nothing(workplace: Workplace) -> None:
    git(workplace.folder, "mv", "templates/_parts/labels.j2", "templates/_parts/marks.j2")
    for path in workplace.folder.rglob("*.j2"):
        path.write_text(path.read_text().replace("_parts/labels.j2", "_parts/marks.j2"))
    assert workplace.preview().units == 0


def test_another_image_reaches_the_models_that_it_serves(workplace: Workplace) -> None:
    workplace.edit("versions.yaml", "vllm/vllm-openai:v0.14.0@", "vllm/vllm-openai:v0.14.1@")
    report = workplace.preview()
    assert "dedicated" in tiers(report)
    assert report.effect is Effect.PODS_RESTART


def test_removed_tier_names_the_endpoints_that_live_on_it(workplace: Workplace) -> None:
    (workplace.folder / "templates/isolated/tier.yaml").unlink()
    report = workplace.preview(fleet=fleet(asking("isolated", "one"), asking("dedicated", "two")))
    assert tiers(report)["isolated"].state == "removed"
    assert tiers(report)["isolated"].stranded == ("ep-0000000000",)
    assert "NodeProvider" not in {change.kind for change in tiers(report)["isolated"].changes}
    assert not [name for name in report.uncovered if name.startswith("isolated/")]
    assert phrases.basis(report).endswith("2 running endpoints: 1 affected.")


def test_endpoints_that_ask_for_the_same_share_what_is_made_of_them(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower(workplace)
    planned: list[str] = []

    def counted(raw: Any, **named: Any) -> Any:
        planned.append(raw["name"])
        return admit_endpoint(raw, **named)

    monkeypatch.setattr("provisioner.preview.units.admit_endpoint", counted)
    requests = [asking("dedicated", f"chat-{number}", tenant=f"acme-{number}") for number in range(50)]
    report = workplace.preview(fleet=fleet(*requests))
    assert (planned, report.endpoints) == (["chat-0", "chat-0"], 50)
    assert {impact.effect for impact in report.impacts} == {Effect.PODS_RESTART}
    assert len(report.impacts) == 50


def test_endpoint_that_the_change_refuses_is_told(workplace: Workplace) -> None:
    [model] = (workplace.folder / MODELS).glob("Qwen2-VL-2B-Instruct.yaml")
    model.unlink()
    report = workplace.preview(fleet=fleet(asking("dedicated", "one")))
    assert "unknown `Qwen2-VL-2B-Instruct`" in failures(report)["dedicated"]


@pytest.mark.parametrize("model", ["MiniMax-M2.5", "Qwen2-VL-2B-Instruct"])
def test_model_that_goes_is_told_with_the_cases_that_nobody_can_plan_any_more(workplace: Workplace, model: str) -> None:
    (workplace.folder / MODELS / f"{model}.yaml").unlink()
    report = workplace.preview(tiers=("dedicated",))
    (failure,) = tiers(report)["dedicated"].failures
    name = "example" if model == "Qwen2-VL-2B-Instruct" else model
    assert (failure.example, failure.side, failure.is_new) == (f"dedicated/{name}", "head", True)
    assert f"unknown `{model}`" in failures(report)["dedicated"]
    assert exit_code(report) == 1


def test_site_of_the_repository_is_read_on_both_sides(workplace: Workplace) -> None:
    workplace.write("site.yaml", example_site().read_text())
    workplace.commit()
    workplace.edit("site.yaml", "connector: argocd-main", "connector: argocd-other")
    report = workplace.preview(site=workplace.folder / "site.yaml")
    assert sorted(name for name in tiers(report) if name in EVERY) == EVERY


def test_folder_of_a_providers_own_is_previewed_in_its_own_repository(workplace: Workplace, tmp_path: Path) -> None:
    own = Workplace(tmp_path / "own", workplace.cache)
    tier = (workplace.folder / "templates/dedicated/tier.yaml").read_text().replace("dedicated", "solo")
    own.write("catalog/templates/solo/tier.yaml", tier)
    git(own.folder, "init", "-q", "-b", "main")
    own.commit()
    own.edit("catalog/templates/solo/tier.yaml", 'nodeclaims: "32"', 'nodeclaims: "16"')
    report = own.preview(catalog=own.folder / "catalog")
    assert list(tiers(report)) == ["solo"]


def test_second_preview_compiles_nothing(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    slower(workplace)
    first = workplace.preview()

    def compile_again(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("provisioner.preview.compilations.compile_templates", compile_again)
    assert workplace.preview() == first


def test_damaged_cache_makes_no_difference(workplace: Workplace, tmp_path: Path) -> None:
    slower(workplace)
    own = Workplace(workplace.folder, tmp_path / "cache")
    first = own.preview(tiers=("dedicated",))
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert own.preview(tiers=("dedicated",)) == first


def test_kubernetes_version_that_nobody_knows_is_refused(workplace: Workplace) -> None:
    pytest.importorskip("kubernetes_validate")
    slower(workplace)
    with pytest.raises(RejectedError, match=r"9\.99"):
        workplace.preview(kubernetes="9.99")


def test_policy_reaches_the_tiers_that_bind_it(workplace: Workplace) -> None:
    workplace.edit("policies/admission/host-access/policy.yaml", "failurePolicy: Fail", "failurePolicy: Ignore")
    report = workplace.preview()
    assert sorted(name for name in tiers(report) if name in EVERY) == EVERY
    assert all(change.where.published for tier in report.tiers for change in tier.changes)


def test_only_what_a_change_can_reach_is_compiled(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.edit("policies/admission/host-access/policy.yaml", "failurePolicy: Fail", "failurePolicy: Ignore")
    compiled: list[str] = []

    def counted(files: Any, names: Any, **inputs: Any) -> Any:
        compiled.extend(names)
        return compile_templates(files, names, **inputs)

    monkeypatch.setattr("provisioner.preview.compilations.compile_templates", counted)
    Workplace(workplace.folder, tmp_path / "cache").preview()
    assert compiled
    assert not [name for name in compiled if name.startswith("applications/")]


def test_what_an_installation_needs_once_stands_beside_the_tiers(workplace: Workplace) -> None:
    [part] = (workplace.folder / "templates/_platform/namespaces").glob("*.j2")
    part.write_text(
        part.read_text().replace("kind: Namespace\nmetadata:\n", "kind: Namespace\nmetadata:\n  annotations: {a: b}\n")
    )
    assert list(tiers(workplace.preview())) == ["platform"]


def test_case_that_the_site_refuses_is_previewed_beside_its_error(workplace: Workplace) -> None:
    workplace.edit("applications/runtimes/parakeet/runtime.yaml", "environment:\n", 'environment:\n  ACME_LOG: "1"\n')
    report = workplace.preview(tiers=("dedicated",))
    assert (report.effect, report.failed) == (Effect.PODS_RESTART, 0)
    assert [case for change in tiers(report)["dedicated"].changes for case in change.where.cases] == [
        "dedicated/parakeet"
    ]
    assert not report.findings.new


def test_new_tier_has_no_case_that_the_site_refuses(workplace: Workplace) -> None:
    tier = (workplace.folder / "templates/dedicated/tier.yaml").read_text()
    workplace.write("templates/gold/tier.yaml", tier.replace("dedicated", "gold"))
    report = workplace.preview()
    assert exit_code(report) == 0
    assert tiers(report)["gold"].state == "added"
    assert "no digest" in report.uncovered["gold/parakeet"]


def test_model_that_the_change_touches_is_a_case_of_its_own(workplace: Workplace) -> None:
    workplace.edit(f"{MODELS}/Qwen3-VL-235B-A22B-Thinking-FP8.yaml", "maxNumSeqs: ", "maxNumSeqs: 1")
    report = workplace.preview(tiers=("dedicated",))
    assert [impact.unit for impact in report.impacts] == ["dedicated/Qwen3-VL-235B-A22B-Thinking-FP8"]
    assert report.effect is Effect.PODS_RESTART


def test_what_the_site_cannot_stand_for_is_told(workplace: Workplace) -> None:
    site = example_site().read_text().replace("profile: prod", "profile: dev")
    workplace.write("site.yaml", site.replace("interconnect: infiniband", "interconnect: ethernet"))
    workplace.commit()
    report = workplace.preview(site=workplace.folder / "site.yaml")
    assert report.site == "example"
    assert "interconnect=infiniband" in report.uncovered["multinode/example"]
    assert "dedicated/example" not in report.uncovered


def test_other_domain_is_told_once_for_all_endpoints(workplace: Workplace) -> None:
    workplace.write("site.yaml", example_site().read_text())
    workplace.commit()
    workplace.edit("site.yaml", "tenantDomain: tenants.example.com", "tenantDomain: gpu.example.com")
    requests = [asking("dedicated", f"chat-{number}", tenant=f"acme-{number}") for number in range(3)]
    report = workplace.preview(tiers=("dedicated",), site=workplace.folder / "site.yaml", fleet=fleet(*requests))
    [route] = [change for change in tiers(report)["dedicated"].changes if change.kind == "HTTPRoute"]
    assert route.where.endpoints == 3
    assert [(each.path, each.after) for each in route.fields] == [
        ("spec.hostnames[0]", '"r{n}-{revision}-{endpoint}.{tenant}.gpu.example.com"')
    ]


def test_endpoint_that_cannot_be_rendered_still_follows_what_is_published(workplace: Workplace) -> None:
    workplace.write("site.yaml", example_site().read_text())
    workplace.commit()
    workplace.edit("site.yaml", "name: example\n", 'name: example\nkubernetesVersion: "1.33"\n')
    report = workplace.preview(
        tiers=("partitioned",), site=workplace.folder / "site.yaml", fleet=fleet(asking("partitioned", "one"))
    )
    assert (report.unknown, report.effect) == (1, Effect.NODES_REPLACED)


@pytest.mark.parametrize("tier", ["isolated", "multinode"])
def test_other_weights_come_with_a_volume_of_their_own(workplace: Workplace, tier: str) -> None:
    for model in (workplace.folder / MODELS).glob("Qwen*.yaml"):
        model.write_text(re.sub(r"revision:[0-9a-f]{6}", "revision:123456", model.read_text()))
    report = workplace.preview(tiers=(tier,))
    assert report.effect is Effect.PODS_RESTART
    assert not any(change.kind.startswith("PersistentVolume") for change in tiers(report)[tier].changes)


def test_lower_limit_of_a_tenant_is_a_reload_of_gateways(workplace: Workplace) -> None:
    workplace.edit("templates/shared/tier.yaml", "requestsPerMinute: 600", "requestsPerMinute: 300")
    report = workplace.preview(fleet=fleet(asking("shared", "one")))
    assert list(tiers(report)) == ["shared"]
    assert (report.effect, exit_code(report)) == (Effect.CONFIG_RELOAD, 0)
    assert [str(change) for change in tiers(report)["shared"].changes] == ["± GatewayLimits/{endpoint} (+1|-1)"]


def test_endpoint_that_only_its_tier_reaches_has_a_load_time_and_a_gap(workplace: Workplace) -> None:
    workplace.write("site.yaml", example_site().read_text())
    workplace.commit()
    workplace.edit("site.yaml", "gpu-model: l4,", "gpu-model: l4, zone: b,")
    report = workplace.preview(
        tiers=("dedicated",), site=workplace.folder / "site.yaml", fleet=fleet(asking("dedicated", "one"))
    )
    (group,) = tiers(report)["dedicated"].groups
    assert (group.effect, group.reason) == (
        Effect.NODES_REPLACED,
        "`aws.gpu-l4`: nodes are compared with it, and made anew",
    )
    assert group.load_seconds is not None and group.gap_seconds == group.load_seconds[0]
