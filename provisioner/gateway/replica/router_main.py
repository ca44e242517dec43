"""The process of a local router: `python -m provisioner.gateway.replica.router_main <arguments of vllm-router>`.

It ends with the gateway that started it, also when that is killed. Started by `router_process` only.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal

_PR_SET_PDEATHSIG = 1
"""`linux/prctl.h`: the signal that a process gets when its parent ends. Other systems have no such call."""


def main() -> None:
    """Runs vllm-router until it is told to end."""
    from vllm_router.launch_router import main as run

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    run()


if __name__ == "__main__":
    main()
