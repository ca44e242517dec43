"""Ports of loopback, one for each worker of a local router, which knows neither TLS nor the replicas' own names.

They stand as long as the process that they were opened for. Whoever may connect to loopback here finds them, and gets
nothing from a replica without the gateway's token. Opened and closed by `router_process`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.router_connection import Passage, RouterConnection

LOOPBACK = "127.0.0.1"


class RouterPorts:
    """The open ports. `addresses` are those of the workers, in their order."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._connections: set[RouterConnection] = set()

    async def open(self, workers: Sequence[Backend], passage: Passage) -> None:
        """Opens a port for each of `workers`, for which the others stand in. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        for place in range(len(workers)):
            make = partial(RouterConnection, passage, (*workers[place:], *workers[:place]), self._connections)
            server = await loop.create_server(cast("Callable[[], asyncio.Protocol]", make), LOOPBACK, 0)
            self._servers.append(server)
            self.addresses.append(f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}")

    def close(self) -> None:
        """Closes the ports and ends their connections."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.close()
