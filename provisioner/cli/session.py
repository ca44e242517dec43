"""Runs one command against the REST API: settings to client, one event loop per command.

The only place where commands meet the network; a command gives a coroutine function and prints what it answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from provisioner.domain.errors import RejectedError
from provisioner.settings import Settings, read_settings

if TYPE_CHECKING:
    from provisioner.client.client import Client

T = TypeVar("T")


def call(request: Callable[[Client], Awaitable[T]]) -> T:
    """Run `request` with a client of the API that the environment names."""
    import asyncio

    from provisioner.client.client import Client

    settings = read_settings()

    async def run() -> T:
        async with Client(settings.url, operator_key(settings)) as client:
            return await request(client)

    return asyncio.run(run())


def operator_key(settings: Settings) -> str:
    """The operator's key of this installation. Raises RejectedError when there is none to read."""
    try:
        return settings.operator_key_file.read_text().strip()
    except OSError as error:
        raise RejectedError(
            f"reading the operator key `{settings.operator_key_file}`: {error.strerror}",
            reason="NoOperatorKey",
            hint="start a laptop installation with `tenantry demo`, or set TENANTRY_OPERATOR_KEY_FILE and TENANTRY_URL",
        ) from error
