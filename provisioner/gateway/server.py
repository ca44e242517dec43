"""One gateway, put together: the customers' listener, the operator's, the source of snapshots, the sweep of deadlines.

`start_gateway` gives a running one, `run_gateway` is the whole life of a process: start, serve until told to stop,
drain, end. Runs on any asyncio loop; a production process uses uvloop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from datetime import timedelta
from random import Random
from secrets import token_hex
from typing import Protocol, cast

from provisioner.domain.clock import Clock
from provisioner.domain.decode_rate import DecodeRate
from provisioner.domain.errors import InvariantError
from provisioner.domain.key import PRIORITY_PREFIX, priority_key
from provisioner.gateway.address import address_refused
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.caller.connection import CallerConnection
from provisioner.gateway.caller.handover import hand_over, is_shared, take_over
from provisioner.gateway.caller.header import Naming, withheld_from_replica
from provisioner.gateway.caller.listener_tls import CallerTls
from provisioner.gateway.config import ControlPlane, GatewayConfig, Limits, TlsFiles
from provisioner.gateway.control.link import Link
from provisioner.gateway.control.subscription import Subscription
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.operator.listener import OperatorListener
from provisioner.gateway.operator.pages import OperatorPages
from provisioner.gateway.queueing.allowances import Allowances
from provisioner.gateway.queueing.claim import Claims, claim_headers
from provisioner.gateway.queueing.queue import Queue
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.client_tls import ClientTls
from provisioner.gateway.replica.dialer import Dialer
from provisioner.gateway.replica.probes import Probes
from provisioner.gateway.replica.rescue import Rescue
from provisioner.gateway.replica.router_connection import Passage
from provisioner.gateway.replica.router_process import ROUTER_CREDENTIAL
from provisioner.gateway.replica.routers import Routers
from provisioner.gateway.replica.upstream import Pool
from provisioner.gateway.secrets import SecretReader, Secrets
from provisioner.gateway.standalone.source import StandaloneSource
from provisioner.gateway.usage.accounting import UsageAccounting
from provisioner.gateway.usage.sinks import usage_sinks
from provisioner.gateway.usage.time_of_day import TimeOfDay

__all__ = ["ControlPlane", "Gateway", "GatewayConfig", "Limits", "TlsFiles", "run_gateway", "start_gateway"]

_log = logging.getLogger(__name__)

_SWEEP_SECONDS = 0.25
_DRAIN_LOOK_SECONDS = 0.02
_HANDOVER_SECONDS = 1.0
_BACKLOG = 2048


class SnapshotSource(Protocol):
    """Where the snapshots of a gateway come from."""

    def load(self) -> None:
        """Publishes what is known before anybody is asked. Raises `RejectedError` when that stops the start."""
        ...

    async def run(self) -> None:
        """Publishes what is new until it is cancelled."""
        ...

    def age(self) -> timedelta | None:
        """How long ago the snapshot in use was confirmed; None when nobody confirms it."""
        ...

    def is_too_old(self) -> bool:
        """Whether the snapshot in use may no longer be served from."""
        ...


class Gateway:
    """A running gateway: `port` for customers, `admin_port` for operators (None when that listener is off)."""

    def __init__(self, config: GatewayConfig, *, clock: Clock, random: Random) -> None:
        counters = Counters()
        files = config.standalone.secret_files if config.standalone else None
        token = token_hex(32)
        secrets = Secrets(config.secrets, files, derived=_derived_secrets(config.control, token))
        dialer = Dialer(ClientTls(config.tls) if config.tls else None)
        self._config = config
        self._id = f"gw-{random.getrandbits(64):016x}"
        """Among the gateways that live, the same until it ends."""
        self._tls = CallerTls(config.listener_tls) if config.listener_tls else None
        self._accounting = UsageAccounting(usage_sinks(config, counters), counters)
        self._link = (
            Link(config.control, self._id, clock=clock, counters=counters, secrets=secrets, random=random)
            if config.control is not None
            else None
        )
        self._path = self._make_path(counters, secrets, Pool(config.limits, dialer, counters), clock, random)
        self._source = self._find_source(clock)
        pages = OperatorPages(config, self._path, self._source.age, lambda: self._routers.generations)
        self._operator = OperatorListener(pages.all)
        if config.standalone is not None and config.admin_host is None:
            self._path.pages = pages.public
        replicas, rate = self._path.replicas, DecodeRate(config.queueing.decode_tokens_per_second)
        self._probes = Probes(config.probing, rate, replicas, dialer, secret=secrets.read, random=random)
        passage = Passage(
            pool=self._path.pool,
            replicas=replicas,
            counters=counters,
            secret=secrets.read,
            token=token.encode(),
            connections=config.limits.connections,
        )
        self._routers = Routers(passage, dialer, instance=self._id, most=config.balancing.routers)
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._probing: asyncio.Task[None] | None = None
        self.port = 0
        self.admin_port: int | None = None

    def _make_path(self, counters: Counters, secrets: Secrets, pool: Pool, clock: Clock, random: Random) -> DataPath:
        config, link = self._config, self._link
        replicas = Replicas(config.balancing.balance, counters)
        waker, outside = (link.waker, link.outside) if link is not None else (None, None)
        return DataPath(
            limits=config.limits,
            clock=clock,
            time=time.monotonic,
            time_of_day=TimeOfDay(clock),
            naming=Naming(random),
            stays=withheld_from_replica(claim_headers(config.queueing)),
            counters=counters,
            pool=pool,
            body_memory=BodyMemory(config.limits.body_memory_bytes),
            claims=Claims(config.queueing, clock, secret=secrets.read),
            queue=Queue(config.queueing),
            allowances=Allowances(asyncio.get_running_loop().time),
            replicas=replicas,
            rescue=Rescue(config.limits, replicas, counters, waker=waker, outside=outside),
            accounting=self._accounting,
            secrets=secrets,
            asks_for_usage=config.usage.asks_for_usage,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it has a snapshot to serve from."""
        return self._path.directory is not None

    async def start(self) -> None:
        """Opens both listeners and begins to follow what there is to serve.

        Raises `RejectedError` for settings that cannot be served and for an address that cannot be had.
        """
        config, loop = self._config, asyncio.get_running_loop()
        self._source.load()
        if config.admin_host is not None:
            self.admin_port = await self._operator.start(config.admin_host, config.admin_port)
        try:
            self._server = await loop.create_server(
                lambda: cast("asyncio.Protocol", CallerConnection(self._path)),
                config.listen_host,
                config.listen_port,
                backlog=_BACKLOG,
                reuse_port=True,  # the next gateway serves before this one has drained
                ssl=self._tls.context if self._tls else None,
            )
        except OSError as error:
            await self._operator.close()
            raise address_refused("LISTEN_ADDR", config.listen_host, config.listen_port, error) from error
        take_over(self._server.sockets)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._probing = loop.create_task(self._probes.run())
        running = [self._source.run(), self._accounting.run(), self._sweep(), self._routers.run()]
        self._tasks = [loop.create_task(one) for one in (*running, *((self._link.run(),) if self._link else ()))]

    async def close(self) -> None:
        """Stops accepting, lets running requests finish within the drain time, then ends.

        For a moment before, whoever waits to connect is taken, and open connections hear that it is their last answer.
        """
        self._path.is_draining = True
        connections, seconds = len(self._path.connections), self._config.limits.drain_seconds
        extra = {"action": "draining", "connections": connections}
        _log.info("ending: connections that have %.0f s to finish: %d", seconds, connections, extra=extra)
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        if self._server is not None:
            hand_over(self._server.sockets)
            await asyncio.sleep(min(_HANDOVER_SECONDS, self._config.limits.drain_seconds / 4))
            self._server.close()
        await self._operator.close()  # so that nobody who asks the next gateway how it is gets this one's answer
        await self._drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.pool.close()
        await self._accounting.close()
        if self._link is not None:
            await self._link.close()

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

    def _find_source(self, clock: Clock) -> SnapshotSource:
        config, counters = self._config, self._path.counters
        if config.standalone is not None:
            return StandaloneSource(config.standalone, clock=clock, counters=counters, publish=self._path.use)
        if config.control is not None:
            return Subscription(
                config.control, config.limits, self._id, clock=clock, counters=counters, publish=self._path.use
            )
        raise InvariantError("starting the gateway: it has neither a control plane nor lanes")

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
            self._path.rescue.expire(now)
            if self._tls is not None:
                self._tls.renew()
            if self._path.directory is not None and self._source.is_too_old():
                _log.error("refusing requests: the snapshot is too old", extra={"action": "snapshot_expired"})
                self._path.directory = None


def _derived_secrets(control: ControlPlane | None, router_token: str) -> SecretReader:
    """What stands in for secrets without a file: the token of local routers, and with a control plane the tenants' keys
    for their claims of priority."""

    def derived(name: str) -> bytes | None:
        if name == ROUTER_CREDENTIAL:
            return router_token.encode()
        if control is None or not name.startswith(PRIORITY_PREFIX):
            return None
        return priority_key(control.credential, name.removeprefix(PRIORITY_PREFIX)).encode()

    return derived


async def start_gateway(config: GatewayConfig, *, clock: Clock, random: Random | None = None) -> Gateway:
    """A running gateway. It answers 503 until it has a snapshot, from the disk or from the control plane.

    Raises `RejectedError` for TLS files that cannot be used and for an address that cannot be had.
    """
    gateway = Gateway(config, clock=clock, random=random or Random())  # noqa: S311 - names of requests, not secrets
    await gateway.start()
    return gateway


async def run_gateway(config: GatewayConfig, *, clock: Clock, stop: asyncio.Event) -> None:
    """Serves until `stop` is set, then drains and returns."""
    _allow_open_files()
    with contextlib.suppress(OSError):  # which the start itself tells better
        if await is_shared(config.listen_host, config.listen_port):
            _log.warning(
                "listening on %s:%d: another process does so too, and connections go to either until it ends",
                config.listen_host,
                config.listen_port,
                extra={"action": "address_shared", "port": config.listen_port},
            )
    gateway = await start_gateway(config, clock=clock)
    _log.info(
        "serving on %s:%d",
        config.listen_host,
        gateway.port,
        extra={"action": "serving", "port": gateway.port, "admin_port": gateway.admin_port},
    )
    await stop.wait()
    await gateway.close()
    _log.info("ended", extra={"action": "ended"})


def _allow_open_files() -> None:
    """Asks for every open file that the system lets us have: shells start a process with 1,024 of them, one request
    takes two, and a connection beyond the last is dropped without a word."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS calls its bound infinite and then refuses that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
