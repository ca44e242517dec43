"""One local router process: vllm-router on loopback, in front of a fixed set of workers.

A set never changes within a process; another set is another process. The arguments name addresses and bounds only:
credentials travel in the requests. Its output is dropped, for it may quote what it is sent. Started and ended by
`routers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.replica_client import ReplicaClient
from provisioner.gateway.replica.worker_set import WorkerSet

START_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
_REQUEST_SECONDS = 24 * 60 * 60
"""How long an answer takes is bounded by the gateway, by silence."""


def is_installed() -> bool:
    """Whether the router is there: it comes with the extra `router`."""
    return find_spec("vllm_router") is not None


def router_arguments(workers: WorkerSet, port: int, metrics_port: int) -> tuple[str, ...]:
    """The arguments of vllm-router. It retries nothing, since a request that was sent is not sent again, and looks at
    its workers as often as the gateway does."""
    return (
        *("--host", _LOOPBACK, "--port", str(port)),
        *("--prometheus-host", _LOOPBACK, "--prometheus-port", str(metrics_port)),
        *("--policy", workers.policy, "--worker-urls", *(f"http://{worker.address}" for worker in workers.workers)),
        "--disable-retries",
        *("--request-timeout-secs", str(_REQUEST_SECONDS)),
        *("--worker-startup-check-interval", "1", "--worker-startup-timeout-secs", "10"),
        *("--health-check-interval-secs", "5", "--health-check-timeout-secs", "2"),
        *("--log-level", "error"),
    )


class RouterProcess:
    """A process that has been started. `backend` is where it takes requests."""

    def __init__(self, workers: WorkerSet, process: asyncio.subprocess.Process, port: int) -> None:
        self.workers = workers
        address = f"{_LOOPBACK}:{port}"
        self.backend = Backend(host=address, address=address, tls=False, credential=workers.workers[0].credential)
        self._process = process

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def wait_until_serving(self, dialer: Dialer) -> bool:
        """Whether it takes requests; False when it has ended or not begun within a minute."""
        client = ReplicaClient(Backend(host="localhost", address=self.backend.address, tls=False), dialer, _no_secret)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not self.has_ended:
                    with contextlib.suppress(OSError):
                        if (await client.ask("/readiness")).status == 200:
                            return True
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return False
        finally:
            client.close()
        return False

    async def end(self) -> None:
        """Ends the process, by force when it does not go."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def start_router(workers: WorkerSet) -> RouterProcess:
    """Starts a process for `workers`, which does not serve yet. Raises `OSError` when it cannot be started."""
    port, metrics_port = _free_ports(2)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "provisioner.gateway.replica.router_main"),
        *router_arguments(workers, port, metrics_port),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={},  # ours may hold secrets
    )
    return RouterProcess(workers, process, port)


def _free_ports(count: int) -> Sequence[int]:
    """Ports of loopback that nobody uses now. Should somebody take one, the process ends and is started again."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]


def _no_secret(name: str) -> None:
    return None
