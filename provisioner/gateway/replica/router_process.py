"""One local router process: vllm-router on loopback, in front of a fixed set of workers.

A set never changes within a process; another set is another process. It sees a port of loopback for each worker, and
the gateway behind them. The arguments name addresses and bounds only: a token travels in the requests, and replicas'
credentials never reach it. Its output is dropped, for it may quote what it is sent. Started and ended by `routers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from provisioner.domain.snapshot import Backend
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.replica_client import ReplicaClient
from provisioner.gateway.replica.router_connection import Passage
from provisioner.gateway.replica.router_ports import LOOPBACK, RouterPorts
from provisioner.gateway.replica.worker_set import WorkerSet

START_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 5.0
ROUTER_CREDENTIAL = ":router"
"""The name of the secret that requests carry through a router. No file can have it."""
_REQUEST_SECONDS = 24 * 60 * 60
"""How long an answer takes is bounded by the gateway, by silence."""


def is_installed() -> bool:
    """Whether the router is there: it comes with the extra `router`."""
    return find_spec("vllm_router") is not None


def router_arguments(policy: str, addresses: Sequence[str], port: int, metrics_port: int) -> tuple[str, ...]:
    """The arguments of vllm-router for workers at these `addresses`. It retries nothing, since a request that was sent
    is not sent again, and leaves it to the gateway, which answers for its workers, to say who is well."""
    return (
        *("--host", LOOPBACK, "--port", str(port)),
        *("--prometheus-host", LOOPBACK, "--prometheus-port", str(metrics_port)),
        *("--policy", policy, "--worker-urls", *(f"http://{address}" for address in addresses)),
        "--disable-retries",
        "--disable-circuit-breaker",
        *("--request-timeout-secs", str(_REQUEST_SECONDS)),
        *("--worker-startup-check-interval", "1", "--worker-startup-timeout-secs", "10"),
        *("--health-check-interval-secs", "5", "--health-check-timeout-secs", "2"),
        *("--log-level", "error"),
    )


class RouterProcess:
    """A process that has been started. `backend` is where it takes requests."""

    def __init__(self, workers: WorkerSet, ports: RouterPorts, process: asyncio.subprocess.Process, port: int) -> None:
        self.workers = workers
        address = f"{LOOPBACK}:{port}"
        self.backend = Backend(host=address, address=address, tls=False, credential=ROUTER_CREDENTIAL)
        self._ports = ports
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
        """Ends the process, by force when it does not go, and closes its workers' ports."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._ports.close()


async def start_router(workers: WorkerSet, passage: Passage) -> RouterProcess:
    """Starts a process for `workers`, which does not serve yet. Raises `OSError` when it cannot be started."""
    port, metrics_port = _free_ports(2)
    ports = RouterPorts()
    try:
        await ports.open(workers.workers, passage)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "provisioner.gateway.replica.router_main", str(os.getpid())),
            *router_arguments(workers.policy, ports.addresses, port, metrics_port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={},  # ours may hold secrets
        )
    except BaseException:
        ports.close()
        raise
    return RouterProcess(workers, ports, process, port)


def _free_ports(count: int) -> Sequence[int]:
    """Ports of loopback that nobody uses now. Should somebody take one, the process ends and is started again."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]


def _no_secret(name: str) -> None:
    return None
