"""An installation of real processes that a test kills with SIGKILL, and what has to be true of it afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import httpx2

from provisioner.cli.laptop import PROCESSES, Laptop
from provisioner.cli.leftovers import find_leftovers, find_processes
from provisioner.cli.operation import new_idempotency_key
from provisioner.client import endpoint_calls, key_calls, operation_calls, tenant_calls
from provisioner.client.client import AsyncClient
from provisioner.domain.errors import RetryableError
from provisioner.embedded.children import is_held
from provisioner.wire.endpoint import EndpointView
from provisioner.wire.operation import OperationView
from provisioner.wiring.publishing import publish_tiers
from tests.crash.quick_tenantry import QuickLaptop
from tests.ports import free_ports

ENGINE = "model server"
VICTIMS = (*PROCESSES, ENGINE)
DEADLINE_SECONDS = 900.0 if os.environ.get("TENANTRY_SOAK") else 90.0
T = TypeVar("T")
Seen = Callable[[OperationView], Awaitable[None]]


async def unmoved(_: OperationView) -> None:
    """Look on and do nothing."""


class Installation:
    """Three processes, the model servers that one of them starts, and a client."""

    def __init__(self, laptop: Laptop) -> None:
        self.laptop = laptop
        self.state = laptop.state
        self.kills: Counter[str] = Counter()
        self._numbers = count()

    def client(self) -> AsyncClient:
        """A client of the REST API."""
        return AsyncClient(self.laptop.settings.url, self.laptop.settings.operator_key_file.read_text().strip())

    async def kill(self, victim: str) -> None:
        """SIGKILL, and, but for model servers, which the kubelet has to bring back itself, a start."""
        if victim == ENGINE:
            for pid in self.engines():
                self.kills[victim] += 1
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            return
        self.kills[victim] += 1
        await asyncio.to_thread(kill_child, self.laptop, victim)
        await asyncio.to_thread(self.laptop.restart, victim)

    def engines(self) -> list[int]:
        """The process ids of the model servers that run."""
        locks = (self.state / "pods").rglob("lock")
        return [int(text) for lock in locks if is_held(lock) and (text := _read(lock.with_name("pid")))]

    async def create_tenant(self, name: str, seen: Seen = unmoved) -> OperationView:
        """Make a tenant that may use the tier; its last state."""
        async with self.client() as client:

            async def submit() -> OperationView:
                return await client.send(
                    tenant_calls.create_tenant(
                        name, display_name=name, tiers=["dedicated"], idempotency_key=f"tenant-{name}"
                    )
                )

            return await self.finish((await persist(submit)).id, seen)

    async def create(self, name: str, seen: Seen = unmoved, *, tenant: str = "acme") -> tuple[str, OperationView]:
        """Make an endpoint; its id and its operation's last state."""
        request = {
            "name": name,
            "tenant": tenant,
            "model": "gemma-3-270m",
            "region": "local",
            "tier": "dedicated",
            "scaling": {"minReplicas": 1, "maxReplicas": 1},
        }
        async with self.client() as client:
            key = f"create-{name}-{next(self._numbers)}"

            async def submit() -> OperationView:
                return await client.send(endpoint_calls.create_endpoint(request, idempotency_key=key))

            creation = await persist(submit)
            return creation.subject, await self.finish(creation.id, seen)

    async def delete(self, endpoint: str, seen: Seen = unmoved) -> OperationView:
        """Delete an endpoint; its operation's last state."""
        async with self.client() as client:

            async def submit() -> OperationView:
                return await client.send(endpoint_calls.delete_endpoint(endpoint, idempotency_key=f"delete-{endpoint}"))

            return await self.finish((await persist(submit)).id, seen)

    async def finish(self, operation: str, seen: Seen = unmoved) -> OperationView:
        """Watch an operation to its end."""
        view: OperationView | None = None
        async with self.client() as client:
            try:
                watching = operation_calls.watch_operation(operation, timeout_seconds=DEADLINE_SECONDS)
                async for view in client.each(watching):
                    await seen(view)
            except RetryableError as error:
                codes = {name: self.laptop.child(name).exit_code for name in PROCESSES}
                raise AssertionError(f"{error}; exit codes: {codes}; last seen: {view}") from None
        assert view
        return view

    async def found(self) -> Counter[str]:
        """How many of each thing stand outside for endpoints."""
        return Counter(await find_leftovers(self.laptop.settings))

    async def require_one_of_each(self, endpoints: Collection[str]) -> None:
        """Every endpoint has one tenant cluster, branch, route and model server, and there is nothing else."""
        found = await self.found()
        wanted = {f"{what} {endpoint}" for what in OUTSIDE for endpoint in endpoints}
        assert {name: found[name] for name in wanted} == dict.fromkeys(wanted, 1), found
        others = [name for name in found if not any(endpoint in name for endpoint in endpoints)]
        assert not others, others
        await eventually(lambda: len(self.engines()), len(endpoints), what="model servers")
        await self.require_no_strays(endpoints)

    async def require_nothing(self) -> None:
        """No endpoint has left anything."""
        assert not await self.found()
        assert not find_processes(self.state)
        await self.require_no_strays(())

    async def require_no_strays(self, endpoints: Collection[str]) -> None:
        """The processes of this installation are the three, and a model server per endpoint."""
        await eventually(
            lambda: len(of_installation(self.state)), len(PROCESSES) + len(endpoints), what="processes of the state"
        )
        async with self.client() as client:
            probes = [key for key in await client.collect(key_calls.list_keys("acme")) if key.name.startswith("probe-")]
            assert all(key.revoked_at for key in probes), probes
            assert {endpoint.id for endpoint in await client.collect(endpoint_calls.list_endpoints())} == set(endpoints)

    async def require_serving(self, endpoint: str, secret: str) -> None:
        """The gateway answers with the key and refuses without it."""
        async with self.client() as client:
            view: EndpointView = await client.send(endpoint_calls.get_endpoint(endpoint))
        await eventually(lambda: ask(view.url, view.model.alias, secret), 200, what=f"status of {view.url}")
        assert ask(view.url, view.model.alias, None) == 401

    async def create_key(self) -> str:
        """A key of the tenant."""
        async with self.client() as client:
            made = await client.send(
                key_calls.create_key({"tenant": "acme", "name": "test"}, idempotency_key=new_idempotency_key())
            )
            return made.secret or ""


OUTSIDE = ("VirtualClusterInstance", "branch", "HTTPRoute")


def ask(url: str, alias: str, secret: str | None) -> int:
    """The status of one completion, 0 when nothing answers."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    body = {"model": alias, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    try:
        answer = httpx2.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)
    except httpx2.HTTPError:
        return 0
    return answer.status_code


async def eventually(look: Callable[[], T], wanted: T, *, what: str) -> None:
    """Look until it is as wanted."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (seen := await asyncio.to_thread(look)) != wanted:
        assert time.monotonic() < deadline, f"{what}: wanted {wanted}, found {seen}"
        await asyncio.sleep(0.05)


async def persist(call: Callable[[], Awaitable[T]]) -> T:
    """Call again, with the same idempotency key, until the API answers: what an unanswered caller does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return await call()
        except RetryableError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


def kill_child(laptop: Laptop, name: str) -> None:
    """SIGKILL one of the processes and see it gone."""
    child = laptop.child(name)
    child.send(signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while child.is_alive():
        assert time.monotonic() < deadline, f"{name} survives SIGKILL"
        time.sleep(0.01)


def of_installation(state: Path) -> list[int]:
    """Every process whose environment names the state (git's own does not, and ends with its caller)."""
    wanted = f"TENANTRY_STATE={state}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            is_ours = wanted in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_ours:
            found.append(int(folder.name))
    return found


@asynccontextmanager
async def running(state: Path) -> AsyncIterator[Installation]:
    """An installation with its tiers published and tenant acme, ended at the end."""
    laptop = QuickLaptop(state, os.environ, ports=free_ports())
    installation = Installation(laptop)
    try:
        await asyncio.to_thread(laptop.start, lambda _: None)
        await publish_tiers(laptop.settings)
        await installation.create_tenant("acme")
        yield installation
    finally:
        await laptop.stop()
    assert not of_installation(state)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
