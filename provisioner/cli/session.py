"""Runs one command against the REST API: settings to client, one event loop per command.

The only place where commands meet the network; a command gives a coroutine function and prints what it answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from provisioner.settings import Settings, read_operator_key, read_settings

if TYPE_CHECKING:
    from provisioner.client.client import Client

T = TypeVar("T")


def call(request: Callable[[Client], Awaitable[T]]) -> T:
    """Run `request` with a client of the API that the environment names."""
    return call_api(read_settings(), request)


def call_api(settings: Settings, request: Callable[[Client], Awaitable[T]]) -> T:
    """Run `request` with a client of the API that the settings name."""
    import asyncio

    from provisioner.client.client import Client

    async def run() -> T:
        async with Client(settings.url, read_operator_key(settings)) as client:
            return await request(client)

    return asyncio.run(run())
