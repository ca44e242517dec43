"""A new tier, runtime or component is one folder: nothing else has to know it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.admission import admit_endpoint
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.pack import pack_root
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack, compile_pack
from provisioner.rendering.values import AGENT_SLOTS, ENDPOINT_SLOTS, REPLICA_SLOTS, TENANT_SLOTS, WORKLOAD_SLOTS
from tests.contract.schemas import documents
from tests.unit.rendering.examples import ENDPOINT, request, site

DOCS = pack_root() / "docs" / "how-to" / "write-a-template.md"


def changed(path: Path, *, to: Path | None = None, **changes: Any) -> None:
    """Write a YAML file with fields changed."""
    reader = YAML(typ="safe", pure=True)
    value = {**reader.load(path), **changes}
    target = to or path
    target.parent.mkdir(exist_ok=True)
    reader.dump(value, target)


def planned(root: Path, **changes: Any) -> tuple[Pack, EndpointPlan]:
    found = load_catalog(root, models=root / "models")
    _, plan = admit_endpoint({**request(), **changes}, catalog=found, site=site(), endpoint_id=ENDPOINT)
    return compile_pack(found, site(), root=root), plan


def pod_of(pack: Pack, plan: EndpointPlan) -> dict[str, Any]:
    [workload] = [value for _, value in documents(pack.runtime_tree(plan)) if value["kind"] == "StatefulSet"]
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def runtimes(root: Path) -> Path:
    """The runtimes of the copy, with a new one, a copy of llama-cpp's description, that serves the demo's model."""
    folder = root / "applications" / "runtimes"
    changed(folder / "llama-cpp" / "runtime.yaml", to=folder / "newcomer" / "runtime.yaml", name="newcomer", port=9999)
    model = root / "models" / "gemma-3-270m.yaml"
    changed(model, master={**YAML(typ="safe").load(model)["master"], "runtime": "newcomer"})
    changed(root / "templates" / "dedicated" / "tier.yaml", runtimes=["newcomer"])
    return folder


def test_runtime_is_a_folder_with_one_file(root: Path, runtimes: Path) -> None:
    assert [path.name for path in (runtimes / "newcomer").iterdir()] == ["runtime.yaml"]
    [server] = pod_of(*planned(root))["containers"]
    assert server["ports"] == [{"name": "http", "containerPort": 9999, "protocol": "TCP"}]


def test_runtimes_own_file_takes_the_place_of_the_shared_one(root: Path, runtimes: Path) -> None:
    changed(runtimes / "newcomer" / "runtime.yaml", environment={"MINE": "1"})
    own = runtimes / "newcomer" / "endpoint"
    own.mkdir()
    (own / "disruption-budget.yaml.j2").write_text("")
    (own / "extra.yaml.j2").write_text('kind: ConfigMap\napiVersion: v1\nmetadata: {name: "{{ workload }}-extra"}\n')
    pack, plan = planned(root)
    [server] = pod_of(pack, plan)["containers"]
    assert {"name": "MINE", "value": "1"} in server["env"]
    tree = pack.runtime_tree(plan)
    assert f"endpoints/{ENDPOINT}/configmap.{plan.workload}-extra.yaml" in tree
    assert not any("poddisruptionbudget" in path for path in tree)


def test_component_is_a_folder_with_two_files(root: Path) -> None:
    stack = root / "applications" / "stack"
    component = stack / "example"
    changed(stack / "keda" / "component.yaml", to=component / "component.yaml", name="example", provides=[])
    (component / "source.yaml.j2").write_text(
        '- repoURL: https://charts.example.com\n  chart: example\n  targetRevision: "{{ charts.keda }}"\n'
    )
    tier = root / "templates" / "dedicated" / "tier.yaml"
    shipped = YAML(typ="safe", pure=True).load(tier)["stack"]
    changed(tier, stack=[*shipped, "example"])
    assert [source["chart"] for source in sources(root)][-1] == "example"
    changed(tier, stack=[*shipped, "exmple"])
    with pytest.raises(RejectedError) as refused:
        sources(root)
    [finding] = refused.value.findings
    assert (finding.reason, finding.field) == ("UnknownComponent", f"stack[{len(shipped)}]")


def sources(root: Path) -> list[dict[str, Any]]:
    objects = planned(root)[0].tier_objects("dedicated")
    found = next(found for found in objects if found["metadata"]["name"] == "tenantry-gpu-stack-dedicated-1-0-0")
    listed: list[dict[str, Any]] = found["spec"]["template"]["spec"]["sources"]
    return listed


def test_tier_is_a_folder(root: Path) -> None:
    folder = root / "templates" / "gold"
    shutil.copytree(root / "templates" / "dedicated", folder)
    example = {**request(), "tier": "gold"}
    changed(folder / "tier.yaml", name="gold", version="2.0.0", example=example)
    pack, plan = planned(root, tier="gold")
    template = pack.tier_objects("gold")[-1]
    assert template["metadata"]["name"] == plan.placement.template == "tenantry-gold"
    assert template["spec"]["versions"][0]["version"] == plan.placement.template_version == "2.0.0"
    assert pack.project("acme", "gold")["metadata"]["name"] == "acme-gold"


@pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not part of an installation")
def test_guide_names_every_slot_that_a_runtimes_template_may_print() -> None:
    text = DOCS.read_text()
    groups = (AGENT_SLOTS, ENDPOINT_SLOTS, REPLICA_SLOTS, TENANT_SLOTS, WORKLOAD_SLOTS)
    assert [name for slots in groups for name in slots if f"`{name}`" not in text] == []
