"""How a process runs: it logs to standard error and ends when it is told to stop. Only what serves loads it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

Run = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Runs until the event is set."""


def log_to_standard_error() -> None:
    """Write our own log lines, from INFO on, and others' warnings."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("provisioner").setLevel(logging.INFO)


def run_until_signal(run: Run) -> None:
    """Run in an event loop, with an event that SIGTERM and SIGINT set."""
    asyncio.run(until_signal(run))


async def until_signal(run: Run) -> None:
    """The same in a loop that runs already."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(stop)
