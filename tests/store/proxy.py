"""A TCP proxy before a database that cuts every connection when told, in the middle of whatever is going on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Connections between clients and one server; `cuts` counts those that were cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.cuts = 0

    def cut(self) -> None:
        """Reset every connection now: what is on its way arrives or does not, and nobody learns which."""
        for writer in self._open:
            self.cuts += 1
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        with suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            both = {writer, server_writer}
            self._open |= both
            await asyncio.gather(self._copy(reader, server_writer), self._copy(server_reader, writer))
            self._open -= both

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[str, Proxy]]:
    """The URL of a server through a proxy, and the proxy."""
    head, _, port = url.rpartition(":")
    proxy = Proxy(int(port))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield f"{head}:{proxy.port}", proxy
    finally:
        server.close()
        proxy.cut()
