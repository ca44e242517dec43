"""The operator's address: shows the operator's pages, and nothing of the customers'. Made by `server`."""

from __future__ import annotations

from aiohttp import web

from provisioner.gateway.address import address_refused
from provisioner.gateway.operator.page import Pages


class OperatorListener:
    """Listens on an address of its own."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; the port in use is returned. Raises `RejectedError` when the address cannot be had."""
        app = web.Application()
        for path in self._pages:
            app.router.add_get(path.decode(), self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, reuse_port=True).start()  # as the customers' address
        except OSError as error:
            await self.close()
            raise address_refused("ADMIN_ADDR", host, port, error) from error
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stops listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        page = self._pages[request.path.encode()]()
        return web.Response(status=page.status, body=page.body, headers={"Content-Type": page.content_type})
