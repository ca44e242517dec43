"""What a gateway has of its control plane beside snapshots and usage: made, run and ended as one by `server`."""

from __future__ import annotations

import asyncio
import logging
from random import Random

from provisioner.domain.clock import Clock
from provisioner.gateway.config import ControlPlane
from provisioner.gateway.control.budget import Budgets
from provisioner.gateway.control.doors import DoorClosedError, Doors
from provisioner.gateway.control.outside import Outside
from provisioner.gateway.control.targets import Targets
from provisioner.gateway.control.waker import Waker
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.secrets import Secrets

_log = logging.getLogger(__name__)


class Link:
    """Who wakes endpoints for the gateway of the id `gateway`, and what lets requests outside."""

    def __init__(
        self,
        control: ControlPlane,
        gateway: str,
        *,
        clock: Clock,
        counters: Counters,
        secrets: Secrets,
        random: Random,
    ) -> None:
        self._gateway = gateway
        self._doors = Doors(control)
        self._budgets = Budgets(self._doors, clock, lambda: f"{gateway}.{random.getrandbits(64):016x}")
        self._targets = Targets(secrets)
        self.waker = Waker(self._doors, counters)
        self.outside = Outside(self._budgets, self._targets, secrets)

    async def run(self) -> None:
        """Keeps budgets and lists of models at hand until it is cancelled."""
        await asyncio.gather(self._budgets.run(), self._targets.run())

    async def close(self) -> None:
        """Gives back what was not used, and takes leave: the others take this gateway's share at once."""
        await self.waker.close()
        await self._budgets.close()
        try:
            await self._doors.delete(f"gateways/{self._gateway}")
        except DoorClosedError as error:
            _log.info("taking leave: nobody answers", extra={"action": "leave_untold", "error": str(error)})
        await self._doors.close()
