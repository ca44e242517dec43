"""Knows callers by their keys: one look into the store per key and second, however many requests come.

A key that is revoked in another process is refused here within that second; in this one `forget` is called. When a key
is used, that is written down every few minutes, beside the request and not within it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import OrderedDict
from dataclasses import dataclass, replace

from provisioner.domain.access import Principal
from provisioner.domain.clock import Clock
from provisioner.domain.errors import TenantryError
from provisioner.domain.ids import KeyId
from provisioner.domain.key import ApiKey, key_digest
from provisioner.store.interface.keys import KeyStore

KNOWN_SECONDS = 1.0
"""How long a key is believed without another look."""

TELLING = "telling the use of"
"""How the tasks are named that write it down."""

_MOST_KNOWN = 10_000
_USE_IS_TOLD_EVERY_SECONDS = 300.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """A key, when it was read, and when its use was told last, in seconds of the loop's clock."""

    key: ApiKey
    read_at: float
    told_at: float | None = None


class Callers:
    """Who the callers are. Never keeps a secret, only digests. Without `team_scoping` no caller is of a team."""

    def __init__(self, keys: KeyStore, *, clock: Clock, team_scoping: bool = True) -> None:
        self._keys = keys
        self._team_scoping = team_scoping
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._telling: set[asyncio.Task[None]] = set()

    async def find(self, secret: str) -> Principal | None:
        """The caller with this key; None when nobody has it or it may no longer be used. Raises what the store does."""
        digest = key_digest(secret)
        known = await self._read(digest)
        if known is None or not hmac.compare_digest(known.key.digest, digest):
            return None
        if not known.key.is_usable(self._clock.now()):
            return None
        self._tell_use(known)
        return known.key.principal if self._team_scoping else replace(known.key.principal, team=None)

    def forget(self) -> None:
        """Look at every key anew: one was revoked."""
        for known in self._known.values():
            known.read_at = -KNOWN_SECONDS

    async def settle(self) -> None:
        """Wait until every use is written down: the process is about to stop."""
        await asyncio.gather(*self._telling)

    async def _read(self, digest: str) -> _Known | None:
        now = asyncio.get_running_loop().time()
        known = self._known.get(digest)
        if known is not None and now - known.read_at < KNOWN_SECONDS:
            return known
        key = await self._keys.find(digest)
        if key is None:
            self._known.pop(digest, None)
            return None
        told_at = known.told_at if known is not None else None
        self._known[digest] = known = _Known(key, now, told_at)
        self._known.move_to_end(digest)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return known

    def _tell_use(self, known: _Known) -> None:
        now = asyncio.get_running_loop().time()
        if known.told_at is not None and now - known.told_at < _USE_IS_TOLD_EVERY_SECONDS:
            return
        known.told_at = now
        task = asyncio.create_task(self._write_use(known.key.id), name=f"{TELLING} {known.key.id}")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _write_use(self, key: KeyId) -> None:
        try:
            await self._keys.tell_use([key], self._clock.now())
        except TenantryError as error:
            _log.warning("the use of key %s was not written down: %s", key, error, extra={"action": "use_untold"})
