"""The route directory of a gateway: one immutable object made from one snapshot and swapped whole.

Every request takes the directory once and works with that object to its end, so it sees one snapshot and never a mix.
Looking up asks two dictionaries and nobody else. Made by `control.decoding` and `standalone.source`. Pure.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final

from provisioner.domain.clock import Clock
from provisioner.domain.key import key_digest
from provisioner.domain.snapshot import KeyDigest, Route, Snapshot
from provisioner.gateway.refusal import Refusal, RefusedError, forbidden, unauthenticated, unknown_model

_ANY_HOST: Final = ""
_NOBODY: Final = KeyDigest(digest="", tenant="")


class Directory:
    """Keys by digest, routes by tenant and alias, and what is open to callers without a key.

    These stand as a key without a digest, which opens no door but those of open routes; a snapshot that has one tells
    what all of them together may send.
    """

    __slots__ = ("_keys", "_routes", "_strangers", "_tenants", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._keys = {key.digest: key for key in snapshot.keys}
        self._routes = {(route.tenant, route.alias): route for route in snapshot.routes}
        self._tenants: dict[str, list[Route]] = {}
        for route in snapshot.routes:
            self._tenants.setdefault(route.tenant, []).append(route)
        self._strangers = _strangers(snapshot.routes, self._keys.pop("", _NOBODY))

    def key(self, secret: bytes) -> KeyDigest | None:
        """The key of which `secret` is the secret, expired or not; None for a secret nobody has."""
        digest = key_digest(secret)
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None

    def stranger(self, host: bytes | None) -> KeyDigest:
        """What stands for a caller at `host` without a usable key. Raises `RefusedError` (401): nothing is open."""
        strangers = self._strangers
        if strangers:
            name = b"" if host is None else host.partition(b":")[0].rstrip(b".").lower()
            key = strangers.get(name.decode("latin-1")) or strangers.get(_ANY_HOST)
            if key is not None:
                return key
        raise RefusedError(unauthenticated())

    def route(self, key: KeyDigest, alias: str) -> Route:
        """The route that `alias` names for the holder of `key`.

        Raises `RefusedError`: 404 when it does not exist or is another tenant's or team's, 403 when the key's own list
        leaves it out, 401 when it wants a key and there is none.
        """
        route = self._routes.get((key.tenant, alias)) or self._routes.get(("", alias))
        if route is None or not _is_for(key, route):
            raise RefusedError(self._unknown(key, alias))
        if not (key.digest or route.is_open):
            raise RefusedError(unauthenticated())
        if key.endpoints is not None and route.endpoint not in key.endpoints:
            raise RefusedError(forbidden(alias))
        return route

    def present(self, route: Route) -> Route:
        """What became of `route`, which may be an older directory's; itself when it is no more."""
        return self._routes.get((route.tenant, route.alias), route)

    def visible(self, key: KeyDigest) -> list[Route]:
        """Every route that the holder of `key` may use, in the snapshot's order."""
        tenants = {key.tenant: None, "": None}
        return [
            route
            for tenant in tenants
            for route in self._tenants.get(tenant, ())
            if _is_for(key, route)
            and (key.digest or route.is_open)
            and (key.endpoints is None or route.endpoint in key.endpoints)
        ]

    def _unknown(self, key: KeyDigest, alias: str) -> Refusal:
        """Where there are keys, who has none does not learn what exists."""
        return unknown_model(alias) if key.digest or not self._keys else unauthenticated()


def is_expired(key: KeyDigest, clock: Clock) -> bool:
    """Whether `key` has run out by now."""
    return key.expires_at is not None and clock.now() >= key.expires_at


def _strangers(routes: Iterable[Route], nobody: KeyDigest) -> dict[str, KeyDigest]:
    """What stands for callers without a key, by the host name under which they ask."""
    strangers: dict[str, KeyDigest] = {}
    for route in routes:
        if not route.is_open:
            continue
        if not route.tenant:
            strangers[_ANY_HOST] = nobody
        elif route.hostname:
            host = route.hostname.lower()
            others = strangers[host].endpoints or () if host in strangers else ()
            strangers[host] = KeyDigest(digest="", tenant=route.tenant, endpoints=(*others, route.endpoint))
    return strangers


def _is_for(key: KeyDigest, route: Route) -> bool:
    """A key without a team works for the whole of its tenant; a route without teams is everybody's who may see it."""
    if not route.teams or key.team in route.teams:
        return True
    return key.team is None and route.tenant != ""
