"""Which gateways live: each tells its id with every question for snapshots, and the reconciler counts them.

The row is written at most every ten seconds for each, whatever it asks. A new one wakes the reconciler: slots and
allowances are split over one more.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from provisioner.domain.clock import Clock
from provisioner.domain.errors import TenantryError
from provisioner.store.interface.fallback import GatewayStore

GATEWAY_HEADER = "Tenantry-Gateway"
"""The header by which a gateway tells its id, the same from its start to its end."""

_TOLD_EVERY = timedelta(seconds=10)
_MOST_REMEMBERED = 1000
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")

_log = logging.getLogger(__name__)


class GatewayRoll:
    """Notes who asks."""

    def __init__(self, store: GatewayStore, *, clock: Clock, wake_reconciler: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._wake_reconciler = wake_reconciler
        self._told: dict[str, datetime] = {}

    async def note(self, gateway: str | None) -> None:
        """The gateway lives. One that gives no id, or none that is one, is not counted."""
        if gateway is None or not _ID.fullmatch(gateway):
            return
        now, told = self._clock.now(), self._told.get(gateway)
        is_new = told is None
        if told is not None and now < told + _TOLD_EVERY:
            return
        if len(self._told) >= _MOST_REMEMBERED:
            self._told.clear()
        self._told[gateway] = now
        try:
            await self._store.tell(gateway, now)
        except TenantryError as error:  # what it asks for does not depend on it
            _log.warning("noting a gateway: %s", error, extra={"action": "gateway_unnoted"})
            del self._told[gateway]
            return
        if is_new:
            self._wake_reconciler()

    async def leave(self, gateway: str) -> None:
        """The gateway has ended. Raises what the store raises."""
        self._told.pop(gateway, None)
        await self._store.forget(gateway)
        self._wake_reconciler()
