"""The route directory of a gateway: one immutable object made from one snapshot and swapped whole.

Every request takes the directory once and works with that object to its end, so it sees one snapshot and never a mix.
Looking up asks two dictionaries and nobody else. Pure.
"""

from __future__ import annotations

import hmac

from provisioner.domain.clock import Clock
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import KeyDigest, Route, Snapshot
from provisioner.gateway.refusal import RefusedError, forbidden, unknown_model


class Directory:
    """Keys by digest and routes by tenant and alias."""

    __slots__ = ("_keys", "_routes", "_tenants", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._keys = {key.digest: key for key in snapshot.keys}
        self._routes = {(route.tenant, route.alias): route for route in snapshot.routes}
        self._tenants: dict[str, list[Route]] = {}
        for route in snapshot.routes:
            self._tenants.setdefault(route.tenant, []).append(route)

    def key(self, secret: bytes) -> KeyDigest | None:
        """The key of which `secret` is the secret, expired or not; None for a secret nobody has."""
        digest = key_digest(secret)
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    def route(self, key: KeyDigest, alias: str) -> Route:
        """The route that `alias` names for the holder of `key`.

        Raises `RefusedError`: 404 when it does not exist or is another tenant's or team's, 403 when the key's own list
        leaves it out.
        """
        route = self._routes.get((key.tenant, alias))
        if route is None or (key.team is not None and not _same_team(key, route)):
            raise RefusedError(unknown_model(alias))
        if key.endpoints is not None and route.endpoint not in key.endpoints:
            raise RefusedError(forbidden(alias))
        return route

    def visible(self, key: KeyDigest) -> list[Route]:
        """Every route that the holder of `key` may use, in the snapshot's order."""
        return [
            route
            for route in self._tenants.get(key.tenant, ())
            if _same_team(key, route) and (key.endpoints is None or route.endpoint in key.endpoints)
        ]


def is_expired(key: KeyDigest, clock: Clock) -> bool:
    """Whether `key` has run out by now."""
    return key.expires_at is not None and clock.now() >= key.expires_at


def _same_team(key: KeyDigest, route: Route) -> bool:
    """A key without a team works for the whole tenant; a route without teams is the whole tenant's."""
    return key.team is None or not route.teams or key.team in route.teams
