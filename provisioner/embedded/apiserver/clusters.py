"""The clusters of one server: which exist, what they serve, and how a change is committed to one.

The control plane cluster always exists. A tenant cluster exists while its VirtualClusterInstance is ready in the
control plane cluster; its data goes in the very transaction that removes that object. Where another server holds the
control plane cluster, somebody tells which tenant clusters exist. `collection` and `routes` work on a `Cluster`;
nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from provisioner.domain.clock import Clock
from provisioner.embedded.apiserver import lifecycle, status
from provisioner.embedded.apiserver.kinds import Kind, Registry, kinds_of_crd, load_builtins
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.storage import Change, ChangeType, Key, Storage
from provisioner.embedded.apiserver.watch import Hub

CONTROL_PLANE: Final = "control-plane"
PROJECT_NAMESPACE_PREFIX: Final = "p-"
MANAGEMENT_GROUP: Final = "management.loft.sh"
MAX_OBJECT_BYTES: Final = 3 * 1024 * 1024
CRDS: Final = "apiextensions.k8s.io/customresourcedefinitions"
_INSTANCES: Final = f"{MANAGEMENT_GROUP}/virtualclusterinstances"
_READY: Final = "VirtualClusterReady"
_RETRY_AFTER_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the server takes from outside: time, random parts, and the directory for container logs."""

    clock: Clock
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]
    logs: Path


class Cluster:
    """One cluster: its objects, its kinds and its watchers."""

    def __init__(self, name: str, identity: int, storage: Storage, surroundings: Surroundings) -> None:
        self.name = name
        self.hub = Hub()
        self.surroundings = surroundings
        self._identity = identity
        self.storage = storage
        self._registry: Registry | None = None

    @property
    def identity(self) -> int:
        """The cluster's number in the storage."""
        return self._identity

    @property
    def registry(self) -> Registry:
        """The kinds that this cluster serves now."""
        if self._registry is None:
            page = self.storage.scan(self._identity, CRDS)
            crds = (orjson.loads(body) for _, body in page.entries)
            self._registry = Registry(load_builtins(), (kind for crd in crds for kind in kinds_of_crd(crd)))
        return self._registry

    def read(self, key: Key) -> Json | None:
        """An object, or None."""
        body = self.storage.read(self._identity, key)
        return orjson.loads(body) if body is not None else None

    def commit(self, key: Key, change_type: ChangeType, *, document: Json, previous: Json | None) -> Json:
        """Makes one change durable, then tells the watchers. Answers the object with its new resourceVersion."""
        with self.storage.transaction():
            change, stored = self._record(key, change_type, document, previous)
            changes = [change, *self._follow_up(key, change_type, document)]
        for change in changes:
            self.hub.publish(change)
        return stored

    def _record(self, key: Key, change_type: ChangeType, document: Json, previous: Json | None) -> tuple[Change, Json]:
        revision = self.storage.next_revision(self._identity)
        stored = document | {"metadata": document["metadata"] | {"resourceVersion": str(revision)}}
        before = orjson.dumps(previous) if previous is not None else None
        body = orjson.dumps(stored)
        if len(body) > MAX_OBJECT_BYTES:
            raise status.too_large(f"the object is larger than {MAX_OBJECT_BYTES} bytes")
        change = Change(revision, key, change_type, body, before)
        self.storage.record(self._identity, change)
        return change, stored

    def _follow_up(self, key: Key, change_type: ChangeType, document: Json) -> list[Change]:
        """What else belongs to a change: a CRD changes the served kinds, and takes its objects with it."""
        if key.collection != CRDS:
            return []
        self._registry = None
        if change_type is not ChangeType.DELETED:
            return []
        spec = document["spec"]
        page = self.storage.scan(self._identity, f"{spec['group']}/{spec['names']['plural']}")
        orphans = ((orphan, orjson.loads(body)) for orphan, body in page.entries)
        return [self._record(orphan, ChangeType.DELETED, body, body)[0] for orphan, body in orphans]


class ControlPlaneCluster(Cluster):
    """The cluster whose objects decide which tenant clusters exist."""

    def __init__(self, name: str, identity: int, storage: Storage, surroundings: Surroundings) -> None:
        super().__init__(name, identity, storage, surroundings)
        self.on_tenant_removed: Callable[[str], None] = lambda name: None

    def _follow_up(self, key: Key, change_type: ChangeType, document: Json) -> list[Change]:
        changes = super()._follow_up(key, change_type, document)
        if key.collection == _INSTANCES and change_type is ChangeType.DELETED:
            name = tenant_name(key.namespace.removeprefix(PROJECT_NAMESPACE_PREFIX), key.name)
            self.storage.remove_cluster(name)
            self.on_tenant_removed(name)
        return changes


class Clusters:
    """All clusters of one server. With `hosts` it is told which tenant clusters exist (`host`); without, its own
    control plane cluster says so."""

    def __init__(self, storage: Storage, surroundings: Surroundings, *, hosts: bool = False) -> None:
        self._hosted: Mapping[str, bool] | None = {} if hosts else None
        self._storage = storage
        self._surroundings = surroundings
        self._tenants: dict[str, Cluster] = {}
        self.control_plane = ControlPlaneCluster(CONTROL_PLANE, self._open(CONTROL_PLANE), storage, surroundings)
        self.control_plane.on_tenant_removed = self._forget

    def tenant(self, project: str, name: str) -> Cluster:
        """A tenant cluster. Raises 404 when there is no such instance, 503 while it is not ready."""
        full_name = tenant_name(project, name)
        is_ready = self._reads_ready(project, name) if self._hosted is None else self._hosted.get(full_name)
        if is_ready is None:
            raise status.not_found(status.Target(MANAGEMENT_GROUP, "virtualclusterinstances", ""), name)
        if not is_ready:
            raise status.unavailable(
                f'tenant cluster "{full_name}" is not ready', retry_after_seconds=_RETRY_AFTER_SECONDS
            )
        if full_name not in self._tenants:
            self._tenants[full_name] = Cluster(full_name, self._open(full_name), self._storage, self._surroundings)
        return self._tenants[full_name]

    def host(self, tenants: Mapping[str, bool]) -> None:
        """Which tenant clusters exist and whether each is ready; whatever is kept of others is removed."""
        for name in self._storage.clusters():
            if name != CONTROL_PLANE and name not in tenants:
                with self._storage.transaction():
                    self._storage.remove_cluster(name)
                self._forget(name)
        self._hosted = dict(tenants)

    def end_watches(self) -> None:
        """Ends every stream of every cluster."""
        for cluster in (self.control_plane, *self._tenants.values()):
            cluster.hub.end_all()

    def _reads_ready(self, project: str, name: str) -> bool | None:
        """Whether an instance of our own control plane cluster is ready; None when there is none."""
        instance = self.control_plane.read(Key(_INSTANCES, PROJECT_NAMESPACE_PREFIX + project, name))
        if instance is None:
            return None
        conditions = instance.get("status", {}).get("conditions") or ()
        return any(condition["type"] == _READY and condition["status"] == "True" for condition in conditions)

    def _open(self, name: str) -> int:
        found = self._storage.find_cluster(name)
        if found is not None:
            return found
        with self._storage.transaction():
            identity = self._storage.add_cluster(name)
            _seed(self._storage, identity, self._surroundings)
        return identity

    def _forget(self, name: str) -> None:
        cluster = self._tenants.pop(name, None)
        if cluster is not None:
            cluster.hub.end_all()


def tenant_name(project: str, name: str) -> str:
    """How a tenant cluster is called: `<project>/<name>`."""
    return f"{project}/{name}"


def _seed(storage: Storage, identity: int, surroundings: Surroundings) -> None:
    """The objects that every new cluster starts with."""
    for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
        _plant(
            storage,
            identity,
            surroundings,
            Key("/namespaces", "", namespace),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {"kubernetes.io/metadata.name": namespace}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )
    for namespace in ("default", "kube-system"):
        _plant(
            storage,
            identity,
            surroundings,
            Key("/serviceaccounts", namespace, "default"),
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            },
        )


def _plant(storage: Storage, identity: int, surroundings: Surroundings, key: Key, document: Json) -> None:
    revision = storage.next_revision(identity)
    metadata = document["metadata"] | {
        "uid": surroundings.new_uid(),
        "creationTimestamp": lifecycle.timestamp(surroundings.clock.now()),
        "resourceVersion": str(revision),
    }
    body = orjson.dumps(document | {"metadata": metadata})
    storage.record(identity, Change(revision, key, ChangeType.ADDED, body, None))


def key_of(kind: Kind, name: str, *, namespace: str) -> Key:
    """Where an object of a kind lives."""
    return Key(kind.storage_key, namespace if kind.namespaced else "", name)
