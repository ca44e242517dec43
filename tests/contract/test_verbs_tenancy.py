"""Tenancies in which endpoints share a tenant cluster, against the embedded control plane: a pool with two aliases,
and two endpoints of a customer in one tenant cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.operation import OperationState, Verb
from provisioner.domain.snapshot import Route
from provisioner.platform import kinds
from tests.contract.test_verbs import left
from tests.contract.verbs_installation import Installation, installation

ON_POOL = {"tier": "shared"}


@pytest.fixture
async def pooled(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with the shipped tier of pools, and two tenants beside the provider's own."""
    async with installation(tmp_path, tier="shared") as made:
        for tenant in ("pool", "acme", "globex"):
            assert (await made.create_tenant(tenant, "shared")).state is OperationState.SUCCEEDED
        yield made


async def made(laptop: Installation, **changes: object) -> Endpoint:
    """An endpoint, when it is Ready."""
    operation = await laptop.submit_create(**changes)
    done = await laptop.finish(operation.id)
    assert done.state is OperationState.SUCCEEDED, done
    return await laptop.endpoint(operation.subject)


async def gone(laptop: Installation, endpoint: Endpoint) -> None:
    """Delete it and wait."""
    done = await laptop.finish((await laptop.submit_delete(endpoint.id)).id)
    assert done.state is OperationState.SUCCEEDED, done


async def routes(laptop: Installation) -> dict[str, Route]:
    """The routes of the current snapshot by tenant and alias."""
    snapshot = await laptop.store.snapshots.current()
    return {f"{route.tenant}/{route.alias}": route for route in snapshot.routes} if snapshot else {}


async def test_aliases_of_two_tenants_share_a_pool_until_the_last_is_gone(pooled: Installation) -> None:
    """Ledger: TEN-02, TEN-04, TEN-05"""
    pool = await made(pooled, tenant="pool", name="gemma", **ON_POOL)
    assert pool.id == pool.plan.pool == pool.plan.placement.tenant_cluster
    ours, theirs = [await made(pooled, tenant=tenant, **ON_POOL) for tenant in ("acme", "globex")]
    assert ours.phase is theirs.phase is Phase.READY
    found = await routes(pooled)
    assert found["acme/chat"].backends == found["globex/chat"].backends == found["pool/gemma"].backends != ()
    assert (found["acme/chat"].group, found["globex/chat"].group) == ("acme/shared", "globex/shared")
    assert len(pooled.processes) == 1
    assert len(await pooled.cluster.list(kinds.VIRTUAL_CLUSTER_INSTANCE)) == 1

    with pytest.raises(RejectedError, match="its replicas are those of a pool") as refused:
        await pooled.submit_scale(ours.id, {"maxReplicas": 4})
    assert refused.value.reason == "PoolHasReplicas"
    assert (
        await pooled.finish((await pooled.submit_update(ours.id, {"team": None})).id)
    ).state is OperationState.SUCCEEDED

    drained = await pooled.finish((await pooled.submit_verb(Verb.ENDPOINT_DRAIN, ours.id)).id)
    assert drained.state is OperationState.SUCCEEDED, drained
    found = await routes(pooled)
    assert found["acme/chat"].backends == () != found["globex/chat"].backends
    warmed = await pooled.finish((await pooled.submit_verb(Verb.ENDPOINT_WARM, ours.id)).id)
    assert warmed.state is OperationState.SUCCEEDED, warmed

    await gone(pooled, ours)
    assert set(await routes(pooled)) == {"pool/gemma", "globex/chat"}
    assert (await routes(pooled))["globex/chat"].backends and pooled.processes
    await gone(pooled, theirs)
    await gone(pooled, pool)
    assert await left(pooled) == []
