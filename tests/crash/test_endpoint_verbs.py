"""Endpoint verbs under kills where the way is not the usual one; `test_every_verb` has the usual ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.domain.ids import OperationId
from provisioner.domain.operation import OperationState
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.world import World
from provisioner.platform.kinds import VIRTUAL_CLUSTER_INSTANCE
from tests.crash.endpoint_lives import Prepare, engine_only, mortal, starting
from tests.crash.harness import Moments, assert_survives_every_kill
from tests.store.examples import plan
from tests.unit.endpoints.installation import ENDPOINT, Installation, installation
from tests.unit.endpoints.test_pool import create, on_pool

pytestmark = pytest.mark.timeout(400)  # a hundred lives each, on a machine that may be busy


async def half_made(laptop: Installation) -> OperationId:
    """A delete of an endpoint whose creation is stuck."""
    laptop.platform.reached -= {"capacity"}
    await laptop.submit_create()
    await laptop.turns(6)
    return await laptop.submit_delete()


async def refused(laptop: Installation) -> OperationId:
    """A create that the project refuses."""
    laptop.platform.cluster.objects.pop(("VirtualClusterTemplate", None, "tenantry-dedicated"))
    return await laptop.submit_create()


def beside() -> EndpointPlan:
    """The plan of an endpoint in its customer's tenant cluster."""
    parameters = {"namespace": "inference", "tenant": "acme"}
    placement = replace(plan().placement, tenant_cluster="acme", parameters=parameters)
    return replace(plan(), tenancy="customer", placement=placement)


async def first(laptop: Installation) -> OperationId:
    """A create of a customer's first endpoint."""
    return await laptop.submit_create(beside())


async def last(laptop: Installation) -> OperationId:
    """A delete of a customer's only endpoint."""
    await laptop.finish(await laptop.submit_create(beside()))
    return await laptop.submit_delete()


async def aliased(laptop: Installation) -> OperationId:
    """A create of an endpoint on a pool."""
    await laptop.finish(await laptop.submit_create(on_pool(ENDPOINT)))
    return await create(laptop)


@pytest.mark.parametrize(("prepare", "around"), [(first, engine_only), (last, mortal), (aliased, engine_only)])
async def test_endpoints_that_share_a_tenant_cluster_killed_at_every_moment_end_alike(
    prepare: Prepare, around: Callable[[Installation, Moments], World], tmp_path: Path
) -> None:
    """Ledger: OPS-05, TEN-04, TEN-05"""
    await assert_survives_every_kill(await starting(tmp_path, prepare, around))


async def test_a_customers_tenant_cluster_is_gone_with_its_only_endpoint(tmp_path: Path) -> None:
    """Ledger: TEN-05"""
    async with installation(tmp_path) as laptop:
        done = await laptop.finish(await last(laptop))
        assert done.state is OperationState.SUCCEEDED, done
        await laptop.settle()
        assert laptop.platform.cluster.names(VIRTUAL_CLUSTER_INSTANCE) == () and laptop.delivery.heads == {}
        assert laptop.effects[:5] == [
            "push ep-a",
            "push tenant-acme-dedicated",
            "apply VirtualClusterInstance acme",
            "apply ArgoCDApplication ep-a-runtime",
            "apply HTTPRoute ep-a",
        ]


async def test_create_that_is_refused_killed_at_every_moment_ends_failed(tmp_path: Path) -> None:
    names = await assert_survives_every_kill(await starting(tmp_path, refused, engine_only))
    assert "after on_failed" in names


async def test_delete_of_a_half_made_endpoint_killed_at_every_moment_leaves_nothing(tmp_path: Path) -> None:
    await assert_survives_every_kill(await starting(tmp_path, half_made, engine_only))
