"""Processes that tests start: where they find what is tested, and whether they still run."""

from __future__ import annotations

import os
from pathlib import Path


def places() -> dict[str, str]:
    """The variables that tell a process where its programs are, and the modules that are tested: compiled or not."""
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ}


def is_running(pid: int) -> bool:
    """False also for one that has ended and that its parent (not every init does it at once) has not yet reaped."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # ended in between, or a system without /proc
        return not Path("/proc/self").exists()
    return state != "Z"
