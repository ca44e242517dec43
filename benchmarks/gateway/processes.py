"""Processes that are measured: started, waited for, ended by their own id, and their CPU time and memory read."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def process(*command: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A running `command`; ended when the block ends."""
    whole = {**os.environ, **(environment or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=whole) as running:
        try:
            yield running
        finally:
            running.terminate()


def first_line(running: subprocess.Popen[str]) -> str:
    """The first line that a process prints."""
    if running.stdout is None:
        raise RuntimeError("the process has no output to read")
    return running.stdout.readline().strip()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, *, seconds: float = 10.0) -> None:
    """Waits until somebody listens on `port`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"waiting for a proxy to listen on port: {port}")


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used, all its threads and children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS_PER_SECOND


def resident_mb(pid: int) -> float:
    """The memory that a process holds, in 10^6 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
