"""Endpoints as they are served now: what a pool serves runs by the pool's plan of today, not by that of its making."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId
from provisioner.endpoints.pool import on_pool
from provisioner.store.interface import Store


async def as_served(endpoints: Iterable[Endpoint], store: Store) -> list[Endpoint]:
    """The same endpoints, each alias with where and what its pool runs. One whose pool is gone stays as it was made."""
    found = list(endpoints)
    pools: dict[str, Endpoint] = {}
    for pool in {endpoint.plan.serving_id for endpoint in found if endpoint.plan.is_alias}:
        try:
            pools[pool] = await store.endpoints.get(EndpointId(pool))
        except NotFoundError:
            continue
    return [
        replace(endpoint, plan=on_pool(endpoint.plan, pools[endpoint.plan.serving_id].plan))
        if endpoint.plan.is_alias and endpoint.plan.serving_id in pools
        else endpoint
        for endpoint in found
    ]
