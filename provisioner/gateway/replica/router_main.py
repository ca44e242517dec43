"""The process of a local router: `python -m provisioner.gateway.replica.router_main <gateway's pid> <arguments>`.

The arguments are those of vllm-router. It ends with the gateway that started it, also when that is killed. Started by
`router_process` only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""`linux/prctl.h`: the signal that a process gets when its parent ends. Other systems have no such call."""


def main() -> None:
    """Runs vllm-router until it is told to end."""
    gateway = int(sys.argv.pop(1))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != gateway:  # it was killed before anybody could be told
        return
    from vllm_router.launch_router import main as run  # takes a moment

    run()


if __name__ == "__main__":
    main()
