"""Who takes along the tenant cluster that a customer's endpoints share: somebody, whatever the order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.conditions import Stage, StageName, update_stages
from provisioner.domain.endpoint import Change, Endpoint, Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import OperationState, Verb
from provisioner.endpoints.customer_cluster import is_last
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import (
    APPLICATION,
    NODE_CLAIM,
    VIRTUAL_CLUSTER_INSTANCE,
    VIRTUAL_CLUSTER_TEMPLATE,
)
from tests.store.examples import NOON, endpoint, plan
from tests.unit.endpoints.changes import another
from tests.unit.endpoints.installation import ENDPOINT, installation


def member(number: int) -> Endpoint:
    """One of a customer's endpoints in one tenant cluster."""
    placement = replace(plan().placement, tenant_cluster="acme")
    planned = replace(plan(), endpoint=EndpointId(f"ep-{number}"), tenancy="customer", placement=placement)
    return endpoint(id=planned.endpoint, plan=planned)


def marked(row: Endpoint) -> Endpoint:
    """As a deletion keeps it once it has left."""
    left = Stage(name=StageName.TENANT_CLUSTER, reason="Left")
    return replace(row, stages=update_stages(row.stages, (left,), NOON))


def test_an_endpoint_leaves_the_cluster_to_those_that_are_in_it() -> None:
    """Ledger: TEN-05"""
    going, staying = marked(member(1)), member(2)
    elsewhere = replace(staying, plan=replace(staying.plan, placement=replace(plan().placement, project="acme-other")))
    assert not is_last(going, [going, staying])
    assert not is_last(going, [going, replace(staying, phase=Phase.FAILED)])
    assert not is_last(going, [going, replace(staying, phase=Phase.DELETING)])
    assert is_last(going, [going, elsewhere])
    assert is_last(going, [going]) and is_last(going, [going, marked(staying)])


@given(st.permutations([(number, step) for number in range(4) for step in ("mark", "look", "go")]))
def test_the_cluster_is_taken_along_in_whatever_order_they_go(order: list[tuple[int, str]]) -> None:
    """Ledger: TEN-05. Each notes that it has left, then looks, then removes its row, all of them at once: whoever notes
    it last finds nobody."""
    rows = {number: member(number) for number in range(4)}
    last_to_mark, takes, steps = -1, set(), {number: iter(("mark", "look", "go")) for number in range(4)}
    for number, _ in order:
        step = next(steps[number])
        if step == "mark":
            rows[number], last_to_mark = marked(rows[number]), number
        elif step == "look" and is_last(rows[number], rows.values()):
            takes.add(number)
        elif step == "go":
            del rows[number]
    assert last_to_mark in takes


async def test_the_projects_quota_counts_the_nodes_that_others_have(tmp_path: Path) -> None:
    """Ledger: TEN-04, TEN-11"""
    async with installation(tmp_path, quotas={"project": {"nodeclaims": "3"}}) as laptop:
        namespace = "p-acme-dedicated"
        for name, owner in (("acme-base", "acme"), ("acme-burst", "acme"), ("other-0", "other")):
            claim = {"metadata": {"name": name, "namespace": namespace}, "spec": {"vClusterRef": owner}}
            laptop.platform.cluster.put(NODE_CLAIM, claim)
        done = await laptop.finish(await laptop.submit_create(member(1).plan))
        assert (done.state, done.reason) == (OperationState.FAILED, "QuotaExceeded"), done
        assert "needed 4" in done.message
        assert laptop.effects == []


async def test_a_change_of_one_endpoint_leaves_the_tenant_cluster_as_it_is(tmp_path: Path) -> None:
    """Ledger: LIF-05. Not even a new version of the tier reaches it: that would restart what serves the others."""
    own = replace(member(1).plan, endpoint=ENDPOINT)
    own = replace(own, placement=replace(own.placement, parameters={"namespace": "inference", "tenant": "acme"}))
    async with installation(tmp_path) as laptop:
        await laptop.finish(await laptop.submit_create(own))
        laptop.platform.effects.clear()
        runtime = replace(another().plan.runtime, max_replicas=2)
        placement = replace(own.placement, template_version="1.0.1")
        template = laptop.platform.cluster.objects[VIRTUAL_CLUSTER_TEMPLATE.kind, None, "tenantry-dedicated"]
        template["spec"]["versions"].append({"version": "1.0.1"})
        change = Change(request=another().request, plan=replace(own, runtime=runtime, placement=placement))
        done = await laptop.finish(await laptop.submit_change(Verb.ENDPOINT_UPDATE, change))
        assert done.state is OperationState.SUCCEEDED, done
        assert not [effect for effect in laptop.platform.effects if "VirtualClusterInstance" in effect]
        snapshot = await laptop.store.snapshots.current()
        assert snapshot and snapshot.routes[0].upstream_model == "other-name"


async def test_a_tenant_cluster_that_never_came_up_goes_with_the_endpoint_that_wanted_it(tmp_path: Path) -> None:
    """Ledger: TEN-05. Argo CD takes nothing out of a cluster that does not answer: it goes as a whole."""
    own = replace(member(1).plan, endpoint=ENDPOINT)
    async with installation(tmp_path) as laptop:
        laptop.platform.reached -= {"tenant_cluster"}
        await laptop.submit_create(own)
        await laptop.turns(4)
        cluster = laptop.platform.cluster
        held, delete = (APPLICATION.kind, "p-acme-dedicated", "ep-a-runtime"), cluster.delete

        async def hold(ref: ObjectRef, **options: Any) -> bool:
            return False if ref.kind == APPLICATION and held in cluster.objects else await delete(ref, **options)

        cluster.delete = hold  # type: ignore[method-assign]
        operation = await laptop.submit_delete()
        await laptop.turns(4)
        assert cluster.names(VIRTUAL_CLUSTER_INSTANCE) == () and held in cluster.objects
        del cluster.objects[held]  # its finalizer goes with the tenant cluster
        assert (await laptop.finish(operation)).state is OperationState.SUCCEEDED
        assert laptop.delivery.heads == {}
