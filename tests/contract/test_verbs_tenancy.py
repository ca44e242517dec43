"""Endpoints of a customer that share a tenant cluster, against the embedded control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.catalog.tier import Tenancy
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.operation import OperationState
from provisioner.domain.snapshot import Route
from provisioner.platform import kinds
from tests.contract.test_verbs import left
from tests.contract.verbs_installation import Installation, installation

ONE_REPLICA = {"minReplicas": 1, "maxReplicas": 1}


async def gone(laptop: Installation, endpoint: Endpoint) -> None:
    """Delete it and wait."""
    done = await laptop.finish((await laptop.submit_delete(endpoint.id)).id)
    assert done.state is OperationState.SUCCEEDED, done


async def routes(laptop: Installation) -> dict[str, Route]:
    """The routes of the current snapshot by tenant and alias."""
    snapshot = await laptop.store.snapshots.current()
    return {f"{route.tenant}/{route.alias}": route for route in snapshot.routes} if snapshot else {}


@pytest.fixture
async def shared_by_customer(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with a tier in which a customer's endpoints share a tenant cluster."""
    async with installation(tmp_path, changed={"tenancy": Tenancy.CUSTOMER}) as made:
        assert (await made.create_tenant()).state is OperationState.SUCCEEDED
        yield made


async def test_a_customers_endpoints_share_a_tenant_cluster_until_the_last_is_gone(
    shared_by_customer: Installation,
) -> None:
    """Ledger: TEN-02, TEN-05"""
    laptop = shared_by_customer
    one, two = [await laptop.submit_create(name=name, scaling=ONE_REPLICA) for name in ("chat", "code")]
    for operation in (one, two):
        done = await laptop.finish(operation.id)
        assert done.state is OperationState.SUCCEEDED, done
    instances = await laptop.cluster.list(kinds.VIRTUAL_CLUSTER_INSTANCE)
    assert [instance["metadata"]["name"] for instance in instances] == ["acme"]
    found = await routes(laptop)
    assert all(len(found[alias].backends) == 1 for alias in ("acme/chat", "acme/code"))
    assert found["acme/chat"].backends != found["acme/code"].backends
    assert len(laptop.processes) == 2

    await gone(laptop, await laptop.endpoint(one.subject))
    assert len(laptop.processes) == 1
    assert (await routes(laptop))["acme/code"].backends
    assert len(await laptop.cluster.list(kinds.VIRTUAL_CLUSTER_INSTANCE)) == 1
    await gone(laptop, await laptop.endpoint(two.subject))
    assert await left(laptop) == []
