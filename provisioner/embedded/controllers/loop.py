"""What drives a controller: list and watch, a queue of keys, and a reconcile function that is called until it agrees.

Level-triggered: an event only says "look at this key", and `reconcile` reads what is there now. Runs over the control
plane cluster (`run_cluster`) or over every tenant cluster that exists (`run_tenants`). A controller in ten lines:

    class Greeter:
        def controller(self) -> Controller:
            return Controller("greeter", (Watch(CONFIG_MAP), Watch(POD, keys=owner_keys("ConfigMap"))), self.reconcile)

        async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
            found = await cluster.api.get(CONFIG_MAP, key.name, namespace=key.namespace)
            if found is None:
                return None                       # gone: nothing left to do
            await cluster.api.patch(CONFIG_MAP, key.name, {"data": {"hello": "world"}}, namespace=key.namespace)
            return 5.0                            # look again in five seconds; None waits for the next event
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field

from provisioner.domain.errors import ConflictError, TenantryError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.kinds import INSTANCE, project_of
from provisioner.platform.interface import Kind

_LOG = logging.getLogger(__name__)

_PARALLEL = 8
_BACKOFF_SECONDS = (0.05, 10.0)
_RELIST_SECONDS = 0.5
_DISCOVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Names one object of the controller's own kind; `namespace` is None for cluster-scoped kinds."""

    namespace: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that controllers run over: its API, and for a tenant cluster its project and name."""

    api: Api
    control_plane: Api
    project: str | None = None
    name: str | None = None

    def tenant(self, project: str, name: str) -> Cluster:
        """The tenant cluster `<project>/<name>` through the Platform's proxy."""
        path = f"/kubernetes/project/{project}/virtualcluster/{name}"
        return Cluster(self.control_plane.below(path), self.control_plane, project, name)

    def __str__(self) -> str:
        return f"{self.project}/{self.name}" if self.project else "control-plane"


def own_key(found: Json) -> Iterable[Key]:
    """The key of the object itself."""
    metadata = found["metadata"]
    return (Key(metadata.get("namespace"), metadata["name"]),)


def owner_keys(kind: str) -> Callable[[Json], Iterable[Key]]:
    """The keys of the object's owners of one kind, in the same namespace."""

    def keys(found: Json) -> Iterable[Key]:
        metadata = found["metadata"]
        owners = metadata.get("ownerReferences", ())
        return tuple(Key(metadata.get("namespace"), owner["name"]) for owner in owners if owner["kind"] == kind)

    return keys


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind to watch, and which keys an object of it concerns."""

    kind: Kind
    keys: Callable[[Json], Iterable[Key]] = own_key


@dataclass(frozen=True, slots=True)
class Controller:
    """A name for logs, what to watch, and `reconcile(cluster, key)`, which is never run twice at once for one key.

    It returns None, or seconds after which to look again; an exception is retried with back-off. `forget(cluster)` is
    called once when a tenant cluster is gone for good, not when the plane stops. `every` makes a watch of each further
    kind that the cluster serves, also of those that come later.
    """

    name: str
    watches: tuple[Watch, ...]
    reconcile: Callable[[Cluster, Key], Awaitable[float | None]]
    forget: Callable[[Cluster], Awaitable[None]] | None = None
    every: Callable[[Kind], Watch] | None = None


async def run_cluster(controllers: Sequence[Controller], cluster: Cluster) -> None:
    """Run controllers over one cluster until cancelled; a kind that several of them watch is watched once."""
    queues = [_Queue(controller, cluster) for controller in controllers]
    listeners: dict[Kind, list[Callable[[Json], None]]] = {}
    for queue in queues:
        for watch in queue.controller.watches:
            listeners.setdefault(watch.kind, []).append(queue.listener(watch))
    curious = [(queue, queue.controller.every) for queue in queues if queue.controller.every]
    for kind, told in listeners.items():
        told += [queue.listener(every(kind)) for queue, every in curious]
    async with asyncio.TaskGroup() as group:
        for queue in queues:
            group.create_task(queue.run(), name=f"{queue.controller.name} in {cluster}")
        for kind, told in listeners.items():
            group.create_task(_follow(kind, cluster, told), name=f"watch {kind.plural} in {cluster}")
        if curious:
            group.create_task(_follow_others(cluster, curious, frozenset(listeners)), name=f"kinds of {cluster}")


async def run_tenants(controllers: Sequence[Controller], control_plane: Cluster) -> None:
    """Run controllers over every tenant cluster, as tenant clusters come and go, until cancelled."""
    running: dict[Key, tuple[str, asyncio.Task[None]]] = {}  # with the uid, for a name may come back

    async def reconcile(_: Cluster, key: Key) -> float | None:
        namespace = key.namespace or ""
        found = await control_plane.api.get(INSTANCE, key.name, namespace=namespace)
        tenant = control_plane.tenant(project_of(namespace), key.name)
        uid = found["metadata"]["uid"] if found else None
        if key in running and running[key][0] != uid:
            task = running.pop(key)[1]
            task.cancel()
            await asyncio.wait((task,))
            for controller in controllers:
                if controller.forget is not None:
                    await controller.forget(tenant)
        if found and key not in running and is_true(found, "VirtualClusterReady"):
            running[key] = found["metadata"]["uid"], group.create_task(run_cluster(controllers, tenant))
        return None

    follower = Controller("tenant clusters", (Watch(INSTANCE),), reconcile)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_cluster((follower,), control_plane))


def is_true(found: Json, condition: str) -> bool:
    """Whether an object's condition of this type has status True."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


async def _follow(kind: Kind, cluster: Cluster, told: Sequence[Callable[[Json], None]]) -> None:
    """List, then watch and resume; list again when the server has forgotten the place, and tell what vanished."""
    known: dict[tuple[str | None, str], Json] = {}
    since: str | None = None
    while True:
        try:
            if since is None:
                items, since = await cluster.api.list_at(kind)
                listed = {_identity(item): item for item in items}
                gone = [item for identity, item in known.items() if identity not in listed]
                known = listed
                _tell(told, [*gone, *items])
            async for event in cluster.api.watch(kind, since=since):
                since = event.object["metadata"]["resourceVersion"]
                if event.type == "BOOKMARK":
                    continue
                if event.type == "DELETED":
                    known.pop(_identity(event.object), None)
                else:
                    known[_identity(event.object)] = event.object
                _tell(told, (event.object,))
        except ConflictError:
            since = None
        except TenantryError as error:
            _LOG.debug("watching %s in %s: %s", kind.plural, cluster, error, extra={"action": "watch_broken"})
            since = None
            await asyncio.sleep(_RELIST_SECONDS)


async def _follow_others(
    cluster: Cluster, curious: Sequence[tuple[_Queue, Callable[[Kind], Watch]]], followed: Set[Kind]
) -> None:
    """Follow every kind that the cluster serves but those already followed, as definitions come and go."""
    running: dict[Kind, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            with contextlib.suppress(TenantryError):  # the server is away: what runs goes on trying
                served = set(await cluster.api.kinds()) - followed
                for kind in served - running.keys():
                    told = [queue.listener(every(kind)) for queue, every in curious]
                    running[kind] = group.create_task(_follow(kind, cluster, told))
                for kind in running.keys() - served:
                    running.pop(kind).cancel()
            await asyncio.sleep(_DISCOVERY_SECONDS)


def _tell(told: Sequence[Callable[[Json], None]], items: Iterable[Json]) -> None:
    for item in items:
        for tell in told:
            tell(item)


def _identity(found: Json) -> tuple[str | None, str]:
    return found["metadata"].get("namespace"), found["metadata"]["name"]


@dataclass(slots=True)
class _Queue:
    """Keys to look at: each at most once at a time, again if it was told of meanwhile."""

    controller: Controller
    cluster: Cluster
    _ready: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)
    _queued: set[Key] = field(default_factory=set)
    _active: set[Key] = field(default_factory=set)
    _again: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)
    _timers: dict[Key, asyncio.TimerHandle] = field(default_factory=dict)

    def listener(self, watch: Watch) -> Callable[[Json], None]:
        def tell(found: Json) -> None:
            try:
                keys = tuple(watch.keys(found))
            except (KeyError, TypeError, AttributeError):  # an odd object must not end the watch of all others
                _LOG.warning("%s: odd %s: %s", self.controller.name, watch.kind.kind, _identity(found))
                return
            for key in keys:
                self.add(key)

        return tell

    def add(self, key: Key) -> None:
        if key in self._active:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: Key, seconds: float) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._wake, key)

    def _wake(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_PARALLEL):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._active.add(key)
            delay = await self._reconcile(key)
            self._active.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            if delay is not None:
                self.add_later(key, delay)

    async def _reconcile(self, key: Key) -> float | None:
        try:
            delay = await self.controller.reconcile(self.cluster, key)
        except Exception as error:
            first, most = _BACKOFF_SECONDS
            count = self._failures[key] = self._failures.get(key, 0) + 1
            expected = isinstance(error, ConflictError) or (isinstance(error, TenantryError) and count < 3)
            expected = expected or "because it is being terminated" in str(error)  # what goes anyway is not missed
            _LOG.log(
                logging.DEBUG if expected else logging.WARNING,
                "%s: reconciling %s in %s: %s", self.controller.name, key, self.cluster, error,
                exc_info=not isinstance(error, TenantryError), extra={"action": "reconcile_again"},
            )  # fmt: skip
            return min(most, first * 2.0 ** min(count, 10))
        self._failures.pop(key, None)
        return delay
