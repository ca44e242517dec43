"""Who waits for what, and what is in use: the numbers by which an endpoint is scaled. Called by `pages`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from provisioner.gateway.datapath import DataPath

IN_USE_SECONDS = 60.0
"""How long an endpoint counts as in use after its last request: longer than from one scrape to the next."""


def waiting(path: DataPath) -> Mapping[str, int]:
    """Requests that wait for a slot or a replica, by the id of every endpoint."""
    routes = path.directory.snapshot.routes if path.directory is not None else ()
    counted = Counter({route.endpoint: 0 for route in routes})
    counted.update(endpoint for one in path.connections if (endpoint := one.waits_at()) is not None)
    return counted


def demand(path: DataPath, now: float) -> Mapping[str, float]:
    """By the id of every endpoint the requests that wait there, or this gateway's share of one while it is in use: one
    that is busy must not look like one that nobody wants. `now` is the loop's time."""
    share = 1 / path.directory.snapshot.gateways if path.directory is not None else 0.0
    in_use = {one.is_for() for one in path.connections}
    in_use |= {endpoint for endpoint, ended in path.last_used.items() if now < ended + IN_USE_SECONDS}
    return {endpoint: count or share * (endpoint in in_use) for endpoint, count in waiting(path).items()}
