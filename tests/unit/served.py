"""The API of the small catalog on a socket, for clients and commands that bring no event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from provisioner.api.services import Services
from provisioner.domain.conditions import StageState
from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import EndpointId
from provisioner.domain.key import key_digest, priority_key
from provisioner.domain.operation import Operation, OperationState, Verb
from provisioner.wiring.serving import serve_app
from tests.store.examples import SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.api.application import application
from tests.unit.api.conftest import GATEWAY_KEY, OPERATOR_KEY, CountingIds, bootstrap_key, claim, end
from tests.unit.catalog.packs import small_catalog, small_site

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """A running API. Its loop is a thread's; `run` does something in it and waits."""

    url: str
    services: Services
    clock: SteppedClock
    loop: asyncio.AbstractEventLoop
    key: str = OPERATOR_KEY

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the API's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def make_tenant(self, name: str = "acme") -> None:
        """End the operation that makes the tenant, as a worker would."""
        self.run(self._made_tenant(name))

    def make_endpoint(self) -> None:
        """End the operation that is due and leave its endpoint Ready, as a worker would."""
        self.run(self._made_endpoint())

    def finish(self, state: OperationState = OperationState.SUCCEEDED) -> Operation:
        """End the operation that is due; the operation."""
        return self.run(self._finished(state))

    async def _made_tenant(self, name: str) -> None:
        operation = await claim(self.services, self.clock)
        tenant = await self.services.store.tenants.find(name)
        assert tenant is not None
        assert operation.lease is not None
        ready = replace(tenant, ready=True)
        await self.services.store.tenants.save(ready, operation=operation.id, fence=operation.lease.fence)
        await end(operation, self.services, self.clock)

    async def _made_endpoint(self) -> None:
        operation = await self._due()
        endpoint = await self.services.store.endpoints.get(EndpointId(operation.subject))
        assert operation.lease is not None
        stages = tuple(replace(stage, state=StageState.DONE, since=self.clock.now()) for stage in endpoint.stages)
        ready = replace(endpoint, phase=Phase.READY, stages=stages)
        await self.services.store.endpoints.save(ready, operation=operation.id, fence=operation.lease.fence)
        await end(operation, self.services, self.clock)

    async def _finished(self, state: OperationState) -> Operation:
        operation = await self._due()
        await end(operation, self.services, self.clock, state=state)
        return operation

    async def _due(self) -> Operation:
        """The operation that is due, as soon as there is one: it may be asked for in another thread."""
        operations = self.services.store.operations
        while (operation := await operations.claim("test", self.clock.now(), verbs=tuple(Verb))) is None:
            await asyncio.sleep(0.01)
        return operation


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve with a store in `folder` until the block ends."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listener = socket.create_server(("127.0.0.1", 0))
    clock = SteppedClock()
    services = asyncio.run_coroutine_threadsafe(_services(folder, clock), loop).result(60)
    served = asyncio.run_coroutine_threadsafe(serve_app(application(services), listener, stop), loop)
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", services, clock, loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        served.result(60)
        asyncio.run_coroutine_threadsafe(_close(services), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _close(services: Services) -> None:
    await services.store.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:  # a watch that went away while it asked leaves the end of its connection behind
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _services(folder: Path, clock: SteppedClock) -> Services:
    store = await open_fresh(folder / "store.sqlite", clock=clock)
    await store.keys.add(bootstrap_key())
    return Services(
        store=store,
        catalog=small_catalog(),
        site=small_site(),
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest(GATEWAY_KEY),
        priority_key=partial(priority_key, GATEWAY_KEY),
        customers_create=True,
    )
