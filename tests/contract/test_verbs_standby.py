"""Restarting, rotating keys, draining, warming and off-boarding against the embedded control plane, with the shipped
tier and runtime, while customers ask through the real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import KeyId
from provisioner.domain.operation import OperationState, Verb
from provisioner.endpoints.orphans import OrphanSurvey
from provisioner.platform import kinds
from provisioner.platform.interface import Kind
from tests.contract.customers import ask_once, asking
from tests.contract.test_verbs import left
from tests.contract.test_verbs_changes import created, pods
from tests.contract.verbs_installation import Installation, installation
from tests.store.examples import api_key

CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with tenant acme."""
    async with installation(tmp_path) as made:
        done = await made.create_tenant()
        assert done.state is OperationState.SUCCEEDED, done
        yield made


async def in_tenant(laptop: Installation, endpoint: str, kind: Kind) -> list[dict[str, Any]]:
    placement = (await laptop.endpoint(endpoint)).plan.placement
    tenant = laptop.world.clusters.tenant("control-plane", placement.project, placement.tenant_cluster)
    return [dict(found) for found in await tenant.list(kind, namespace="inference")]


async def held(laptop: Installation, endpoint: str) -> dict[str, Any]:
    """The volumes by UID, and the resources of each pod by its name."""
    claims = await in_tenant(laptop, endpoint, CLAIM)
    found = await in_tenant(laptop, endpoint, kinds.POD)
    return {
        **{claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims},
        **{pod["metadata"]["name"]: [each["resources"] for each in pod["spec"]["containers"]] for pod in found},
    }


async def until_known(url: str, secret: str) -> None:
    """Wait until the gateway knows a key."""
    async with asyncio.timeout(60):
        while await ask_once(url, "chat", secret) != 200:
            await asyncio.sleep(0.05)


async def test_restart_replaces_pods_keeps_volumes_and_gpus_and_fails_no_request(laptop: Installation) -> None:
    """Ledger: LIF-09"""
    endpoint = await created(laptop, 2, 2)
    await laptop.backends(2)
    before, kept, row = await pods(laptop, endpoint), await held(laptop, endpoint), await laptop.endpoint(endpoint)
    async with asking(laptop, "chat") as customers:
        done = await laptop.finish((await laptop.submit_verb(Verb.ENDPOINT_RESTART, endpoint)).id)
    after = await pods(laptop, endpoint)
    assert done.state is OperationState.SUCCEEDED, done
    assert customers.failures == [] and sum(customers.answers.values()) > 10
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())
    assert await held(laptop, endpoint) == kept
    assert (await laptop.endpoint(endpoint)).plan == row.plan


async def test_old_key_is_refused_after_the_overlap_and_no_request_failed_on_the_way(laptop: Installation) -> None:
    """Ledger: SEC-04"""
    endpoint = await created(laptop, 1, 1)
    old = api_key("tnt-old", id=KeyId("key-old"), endpoints=(endpoint,))
    await laptop.store.keys.add(old)
    async with asking(laptop, "chat") as customers:
        await until_known(customers.url, "tnt-old")
        operation = await laptop.submit_rotation(endpoint, old, secret="tnt-new", overlap_seconds=3600)
        await until_known(customers.url, "tnt-new")
        with_both = [await ask_once(customers.url, "chat", secret) for secret in ("tnt-old", "tnt-new") * 5]
        done = await laptop.finish(operation.id)
        until = datetime.fromisoformat(operation.request["until"])
        assert laptop.world.clock.now() < until, "it does not wait for the overlap"
        new = await laptop.store.keys.get(KeyId(operation.request["key"]))
        operation = await laptop.submit_rotation(endpoint, new, secret="tnt-newer", overlap_seconds=3)
        await until_known(customers.url, "tnt-newer")
        async with asyncio.timeout(60):
            while await ask_once(customers.url, "chat", "tnt-new") != 401:
                await asyncio.sleep(0.2)
        assert laptop.world.clock.now() >= datetime.fromisoformat(operation.request["until"])
        with_new = [await ask_once(customers.url, "chat", secret) for secret in ("tnt-old", "tnt-newer")]
    assert done.state is OperationState.SUCCEEDED, done
    assert set(with_both) | set(with_new) == {200}
    assert customers.failures == []


async def test_drained_endpoint_tells_callers_to_come_again_until_it_is_warmed(laptop: Installation) -> None:
    """Ledger: LIF-05. Requests that ran have ended, Argo CD does not bring replicas back."""
    endpoint = await created(laptop, 1, 1)
    async with asking(laptop, "chat") as customers:
        done = await laptop.finish((await laptop.submit_verb(Verb.ENDPOINT_DRAIN, endpoint)).id)
        assert done.state is OperationState.SUCCEEDED, done
        assert (await laptop.endpoint(endpoint)).phase is Phase.DRAINED
        assert await pods(laptop, endpoint) == {} and laptop.processes == []
        await asyncio.sleep(5.0)  # longer than Argo CD of the embedded plane takes to heal
        assert await pods(laptop, endpoint) == {}
        assert await ask_once(customers.url, "chat", "tnt-secret") == 503
        told, customers.failures[:] = set(customers.failures), []
        done = await laptop.finish((await laptop.submit_verb(Verb.ENDPOINT_WARM, endpoint)).id)
        assert done.state is OperationState.SUCCEEDED, done
        assert await ask_once(customers.url, "chat", "tnt-secret") == 200
        customers.failures.clear()
        answered = sum(customers.answers.values())
        async with asyncio.timeout(60):
            while sum(customers.answers.values()) < answered + 5:
                await asyncio.sleep(0.05)
    assert {failure[:3] for failure in told} == {"503"} and customers.failures == []
    assert (await laptop.endpoint(endpoint)).phase is Phase.READY


async def test_tenant_is_off_boarded_with_its_endpoint_and_nothing_is_left(laptop: Installation) -> None:
    """Ledger: TEN-06, LIF-10"""
    endpoint = await created(laptop, 1, 1)
    await laptop.store.keys.add(api_key("tnt-old", id=KeyId("key-old"), endpoints=(endpoint,)))
    assert await OrphanSurvey(laptop.world).look() == ()
    done = await laptop.finish((await laptop.submit_offboard()).id)
    assert done.state is OperationState.SUCCEEDED, done
    assert await left(laptop) == []
    assert await laptop.store.tenants.list() == [] and await laptop.store.keys.list() == []
    assert await laptop.cluster.list(kinds.PROJECT) == []
    names = [found["metadata"]["name"] for found in await laptop.cluster.list(kinds.NAMESPACE)]
    assert "p-acme-dedicated" not in names
