"""How a replica is reached: its address is dialled under its own name, by mutual TLS where the snapshot says so.

A server of somebody else is checked against the system's authorities, and never sees our certificate.

Whoever speaks to replicas dials here, the pool for customers' requests and the probes for their own.
"""

from __future__ import annotations

import asyncio
import ssl

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.client_tls import ClientTls


class Dialer:
    """Opens connections. Without `tls` a replica that wants TLS cannot be reached."""

    def __init__(self, tls: ClientTls | None) -> None:
        self._tls = tls
        self._public: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()

    async def dial(self, backend: Backend, protocol: asyncio.Protocol) -> None:
        """Connects `protocol`, TLS handshake included. Raises `OSError` when there can be no connection; the caller
        bounds the time."""
        host, _, port = backend.address.rpartition(":")
        if not host or not port.isdecimal():
            raise OSError("the replica's address is not host:port")
        await self._loop.create_connection(
            lambda: protocol,
            host.strip("[]"),
            int(port),
            ssl=self._context(backend) if backend.tls else None,
            server_hostname=backend.host.partition(":")[0] if backend.tls else None,
        )

    def _context(self, backend: Backend) -> ssl.SSLContext:
        if backend.is_public:
            if self._public is None:
                self._public = ssl.create_default_context()
            return self._public
        if self._tls is None:
            raise OSError("the replica wants TLS and the gateway has no client certificate")
        return self._tls.context()
