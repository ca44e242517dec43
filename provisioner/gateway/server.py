"""One gateway, put together: the customers' listener, the operator's listener, the subscription, the deadline sweep.

`start_gateway` gives a running one, `run_gateway` is the whole life of a process: start, serve until told to stop,
drain, end. Runs on any asyncio loop; a production process uses uvloop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from random import Random

from provisioner.domain.clock import Clock
from provisioner.domain.snapshot import Snapshot
from provisioner.gateway.body.request_body import BodyMemory
from provisioner.gateway.caller.connection import CallerConnection
from provisioner.gateway.caller.header import Naming, withheld_from_replica
from provisioner.gateway.config import ControlPlane, GatewayConfig, Limits, TlsFiles
from provisioner.gateway.control.subscription import Subscription
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import Directory
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.operator.listener import OperatorListener
from provisioner.gateway.operator.pages import OperatorPages
from provisioner.gateway.queueing.allowances import Allowances
from provisioner.gateway.queueing.claim import Claims, claim_headers
from provisioner.gateway.queueing.queue import Queue
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.client_tls import ClientTls
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.rescue import Rescue
from provisioner.gateway.replica.upstream import Pool
from provisioner.gateway.secrets import Secrets
from provisioner.gateway.usage.accounting import UsageAccounting
from provisioner.gateway.usage.sinks import usage_sinks

__all__ = ["ControlPlane", "Gateway", "GatewayConfig", "Limits", "TlsFiles", "run_gateway", "start_gateway"]

_log = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.25
_DRAIN_LOOK_SECONDS = 0.02
_BACKLOG = 2048


class Gateway:
    """A running gateway: `port` for customers, `admin_port` for operators (None when that listener is off)."""

    def __init__(self, config: GatewayConfig, *, clock: Clock, random: Random) -> None:
        counters = Counters()
        dialer = Dialer(ClientTls(config.tls) if config.tls else None)
        pool = Pool(config.limits, dialer, counters)
        self._config = config
        self._accounting = UsageAccounting(usage_sinks(config, counters), counters)
        self._path = DataPath(
            limits=config.limits,
            clock=clock,
            naming=Naming(random),
            stays=withheld_from_replica(claim_headers(config.queueing)),
            counters=counters,
            pool=pool,
            body_memory=BodyMemory(config.limits.body_memory_bytes),
            claims=Claims(config.queueing, clock, secret=Secrets(config.secrets).read),
            queue=Queue(config.queueing),
            allowances=Allowances(asyncio.get_running_loop().time),
            replicas=Replicas(),
            rescue=Rescue(),
            accounting=self._accounting,
        )
        self._subscription = Subscription(
            config.control, config.limits, clock=clock, counters=counters, publish=self._publish
        )
        self._operator = OperatorListener(OperatorPages(config, self._path, self._subscription.age).all)
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0
        self.admin_port: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has a snapshot to serve from."""
        return self._path.directory is not None

    async def start(self) -> None:
        """Opens both listeners and begins to follow the control plane. Raises `OSError` for an address in use."""
        config, loop = self._config, asyncio.get_running_loop()
        self._subscription.load_stored()
        if config.admin_host is not None:
            self.admin_port = await self._operator.start(config.admin_host, config.admin_port)
        try:
            self._server = await loop.create_server(
                lambda: CallerConnection(self._path), config.listen_host, config.listen_port, backlog=_BACKLOG
            )
        except OSError:
            await self._operator.close()
            raise
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._tasks = [
            loop.create_task(one) for one in (self._subscription.run(), self._accounting.run(), self._sweep())
        ]

    async def close(self) -> None:
        """Stops accepting, lets running requests finish within the drain time, then ends."""
        self._path.is_draining = True
        if self._server is not None:
            self._server.close()
        await self._drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.pool.close()
        await self._accounting.close()
        await self._operator.close()

    async def _drain(self) -> None:
        """Waits until every connection has ended, and breaks off those that have not when the time is over."""
        loop, connections = asyncio.get_running_loop(), self._path.connections
        deadline = loop.time() + self._config.limits.drain_seconds
        while connections and loop.time() < deadline:
            for connection in tuple(connections):
                connection.close_if_idle()
            await asyncio.sleep(_DRAIN_LOOK_SECONDS)
        for connection in tuple(connections):
            connection.break_off()

    def _publish(self, snapshot: Snapshot) -> None:
        self._path.use(Directory(snapshot))

    async def _sweep(self) -> None:
        """Ends what has been silent for too long. One timer for all is far cheaper than one for each request."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            for connection in tuple(self._path.connections):
                connection.expire(now)
            self._path.pool.expire(now)
            self._path.queue.expire(now)
            if self._path.directory is not None and self._subscription.is_too_old():
                _log.error("refusing requests: the snapshot is too old", extra={"action": "snapshot_expired"})
                self._path.directory = None


async def start_gateway(config: GatewayConfig, *, clock: Clock, random: Random | None = None) -> Gateway:
    """A running gateway. It answers 503 until it has a snapshot, from the disk or from the control plane.

    Raises `RejectedError` for TLS files that cannot be used and `OSError` for an address in use.
    """
    gateway = Gateway(config, clock=clock, random=random or Random())  # noqa: S311 - names of requests, not secrets
    await gateway.start()
    return gateway


async def run_gateway(config: GatewayConfig, *, clock: Clock, stop: asyncio.Event) -> None:
    """Serves until `stop` is set, then drains and returns."""
    _allow_open_files()
    gateway = await start_gateway(config, clock=clock)
    _log.info(
        "serving on %s:%d",
        config.listen_host,
        gateway.port,
        extra={"action": "serving", "port": gateway.port, "admin_port": gateway.admin_port},
    )
    await stop.wait()
    await gateway.close()


def _allow_open_files() -> None:
    """Asks for every open file that the system lets us have: shells start a process with 1,024 of them, one request
    takes two, and a connection beyond the last is dropped without a word."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS calls its bound infinite and then refuses that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
