"""The verbs on one collection of one cluster: create, update, patch, apply, delete.

Each reads, decides and commits without giving up the event loop in between, so no two writers can interleave. `routes`
calls it with decoded bodies; what it raises is a StatusError. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provisioner.embedded.apiserver import defaults, lifecycle, rules, status
from provisioner.embedded.apiserver.clusters import Cluster, key_of
from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.merge import apply as merging
from provisioner.embedded.apiserver.merge.apply import Manager
from provisioner.embedded.apiserver.merge.fields import Path
from provisioner.embedded.apiserver.schema import Report, conform
from provisioner.embedded.apiserver.shape import Json
from provisioner.embedded.apiserver.status import Cause
from provisioner.embedded.apiserver.storage import ChangeType, Key


@dataclass(slots=True, kw_only=True)
class Write:
    """How a write is to be made, and what it has to tell: `warnings` is filled for the answer."""

    manager: str
    subresource: str = ""
    dry_run: bool = False
    force: bool = False
    validation: str = "Warn"
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The options of a DELETE. `grace_seconds` None leaves the pod's own; `policy` None leaves finalizers alone."""

    grace_seconds: int | None = None
    policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


class Collection:
    """The objects of one kind in one namespace (empty for cluster-wide kinds) of one cluster."""

    def __init__(self, cluster: Cluster, kind: Kind, namespace: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._namespace = namespace

    def get(self, name: str) -> Json:
        """An object, in the version that was asked for. Raises 404."""
        found = self._find(name)
        if found is None:
            raise status.not_found(self._kind.target, name)
        return found

    def create(self, document: Json, write: Write) -> Json:
        """Stores a new object. Raises 404 without its namespace, 409 when the name is taken, 422 when it is refused."""
        lifecycle.check_identity(document, self._kind, namespace=self._namespace)
        conformed = defaults.decoded(self._conform(document, write), self._kind)
        return self._begin(conformed, write, applied=False)

    def replace(self, name: str, document: Json, *, write: Write) -> Json:
        """A whole object anew. Raises 409 when it was made from another version, 422 when it must say from which."""
        lifecycle.check_identity(document, self._kind, namespace=self._namespace, name=name)
        lifecycle.check_version_is_stated(document, self._kind)
        return self.update(name, lambda _: document, write=write)

    def update(self, name: str, change: Callable[[Json], Json], *, write: Write) -> Json:
        """Replaces an object by what `change`, a pure function, makes of it. Nothing is stored when nothing changes."""
        live = self.get(name)
        wanted = change(live)
        lifecycle.check_identity(wanted, self._kind, namespace=self._namespace, name=name)
        wanted = defaults.decoded(self._conform(wanted, write), self._kind)
        successor = lifecycle.succeed(live, wanted, kind=self._kind, subresource=write.subresource)
        return self._store(live, self._record(live, successor, write), write)

    def apply(self, name: str, config: Json, *, write: Write) -> tuple[Json, bool]:
        """Server-side apply; answers the object and whether it was created. Raises 409 with the owners of fields."""
        lifecycle.check_identity(config, self._kind, namespace=self._namespace, name=name)
        if config["metadata"].get("managedFields"):
            raise status.bad_request("metadata.managedFields must be nil")
        config = self._conform(config, write, applied=True)
        live = self._find(name)
        if live is None:
            self._check_may_begin(name, config, write)
        # Defaults come after the merge: nobody owns what nobody stated.
        merged = defaults.decoded(self._merge(live or {}, config, write), self._kind)
        if live is None:
            return self._begin(merged, write, applied=True), True
        successor = lifecycle.succeed(live, merged, kind=self._kind, subresource=write.subresource)
        return self._store(live, successor, write), False

    def delete(self, name: str, deletion: Deletion) -> tuple[Json, bool]:
        """Removes an object, or marks it while something holds it. Answers its last state and whether it is gone."""
        live = self.get(name)
        lifecycle.check_deletable(live, self._kind)
        self._check_preconditions(live, deletion)
        grace = lifecycle.grace_seconds(live, deletion.grace_seconds)
        marked = lifecycle.mark_deleted(
            live, now=self._cluster.surroundings.clock.now(), grace_seconds=grace, policy=deletion.policy
        )
        if grace < live["metadata"].get("deletionGracePeriodSeconds", 0):
            marked["metadata"]["deletionGracePeriodSeconds"] = grace
        finished = lifecycle.is_finished(marked)
        if deletion.dry_run or marked == live:
            return marked, finished
        change_type = ChangeType.DELETED if finished else ChangeType.MODIFIED
        return self._cluster.commit(self._key(name), change_type, document=marked, previous=live), finished

    def finalize(self, name: str, finalizers: list[str], *, write: Write) -> Json:
        """Sets a namespace's spec.finalizers, which its other writes cannot touch."""
        live = self.get(name)
        successor = live | {"spec": {"finalizers": finalizers} if finalizers else {}}
        if successor == live or write.dry_run:
            return successor
        change_type = ChangeType.DELETED if lifecycle.is_finished(successor) else ChangeType.MODIFIED
        return self._cluster.commit(self._key(name), change_type, document=successor, previous=live)

    def _find(self, name: str) -> Json | None:
        found = self._cluster.read(self._key(name))
        return self._kind.in_version(found) if found is not None else None

    def _key(self, name: str) -> Key:
        return key_of(self._kind, namespace=self._namespace, name=name)

    def _begin(self, document: Json, write: Write, *, applied: bool) -> Json:
        self._kind.checker.check(document, document["metadata"].get("name", ""))
        surroundings = self._cluster.surroundings
        now = surroundings.clock.now()
        begun = lifecycle.begin(
            document, self._kind, now=now, uid=surroundings.new_uid(), suffix=surroundings.new_suffix()
        )
        if not applied:
            begun = self._record({}, begun, write)
        begun = defaults.at_creation(begun, self._kind, now=lifecycle.timestamp(now))
        name = begun["metadata"]["name"]
        self._check_namespace(name)
        rules.check(None, begun, kind=self._kind)
        if self._find(name) is not None:
            raise status.already_exists(self._kind.target, name)
        if write.dry_run:
            return begun
        return self._cluster.commit(self._key(name), ChangeType.ADDED, document=begun, previous=None)

    def _store(self, live: Json, successor: Json, write: Write) -> Json:
        name = live["metadata"]["name"]
        self._kind.checker.check(successor, name)
        successor = defaults.at_update(live, successor, kind=self._kind)
        if successor == live:
            return live
        rules.check(live, successor, kind=self._kind)
        if write.dry_run:
            return successor
        change_type = ChangeType.DELETED if lifecycle.is_finished(successor) else ChangeType.MODIFIED
        return self._cluster.commit(self._key(name), change_type, document=successor, previous=live)

    def _conform(self, document: Json, write: Write, *, applied: bool = False) -> Json:
        """Without unknown fields, which are refused or warned of as asked; an apply may never have any."""
        report = Report()
        conformed: Json = conform(document, self._kind.shape, report=report)
        kind, unknown = self._kind, [f'unknown field "{path}"' for path in report.unknown]
        if applied and (report.unknown or report.duplicates):
            raise self._untyped(document, report)
        if unknown and write.validation == "Strict":
            raise status.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(unknown)}"
            )
        if write.validation == "Warn":
            write.warnings.extend(unknown)
        if report.duplicates and kind.custom:
            causes = [Cause("FieldValueDuplicate", "Duplicate value", path) for path in report.duplicates]
            raise status.invalid(kind.target, document["metadata"].get("name", ""), causes=causes)
        return conformed

    def _untyped(self, document: Json, report: Report) -> status.StatusError:
        """A refusal in the words of a real server; that answers 500, but the request is at fault, so this is a 400."""
        metadata, kind = document["metadata"], self._kind
        faults = [f".{path}: field not declared in schema" for path in report.unknown]
        faults += [f".{path}: duplicate entries for key" for path in report.duplicates]
        return status.bad_request(
            f"failed to create typed patch object ({metadata.get('namespace', '')}/{metadata['name']}; "
            f"{kind.api_version}, Kind={kind.kind}): {'; '.join(faults)}"
        )

    def _check_may_begin(self, name: str, config: Json, write: Write) -> None:
        if write.subresource:
            raise status.not_found(self._kind.target, name)
        if uid := config["metadata"].get("uid"):
            fact = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise status.conflict(self._kind.target, name, fact=fact)
        config["metadata"].pop("resourceVersion", None)

    def _record(self, live: Json, successor: Json, write: Write) -> Json:
        return merging.record_update(
            live,
            successor,
            shape=self._kind.shape,
            manager=self._manager("Update", write),
            time=lifecycle.timestamp(self._cluster.surroundings.clock.now()),
            ignored=self._ignored(write),
        )

    def _merge(self, live: Json, config: Json, write: Write) -> Json:
        try:
            return merging.apply(
                live,
                config,
                shape=self._kind.shape,
                manager=self._manager("Apply", write),
                force=write.force,
                time=lifecycle.timestamp(self._cluster.surroundings.clock.now()),
                ignored=self._ignored(write),
            )
        except merging.ApplyConflict as conflict:
            raise status.apply_conflict(
                self._kind.target, config["metadata"]["name"], causes=conflict.causes
            ) from conflict

    def _manager(self, operation: str, write: Write) -> Manager:
        return Manager(
            name=write.manager,
            operation=operation,
            api_version=self._kind.api_version,
            subresource=write.subresource,
        )

    def _ignored(self, write: Write) -> tuple[Path, ...]:
        """What this view of the object cannot write, so that nobody comes to own it by trying."""
        if not self._kind.has_status:
            return ()
        return (("f:spec",), ("f:metadata",)) if write.subresource == "status" else (("f:status",),)

    def _check_namespace(self, name: str) -> None:
        if not self._kind.namespaced:
            return
        namespace = self._cluster.read(Key("/namespaces", "", self._namespace))
        if namespace is None:
            raise status.not_found(status.Target("", "namespaces", "Namespace"), self._namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            message = f"unable to create new content in namespace {self._namespace} because it is being terminated"
            cause = Cause(
                "NamespaceTerminating", f"namespace {self._namespace} is being terminated", "metadata.namespace"
            )
            raise status.forbidden(
                f'{self._kind.target.resource} "{name}" is forbidden: {message}',
                target=self._kind.target,
                name=name,
                causes=[cause],
            )

    def _check_preconditions(self, live: Json, deletion: Deletion) -> None:
        metadata: dict[str, Any] = live["metadata"]
        for name, wanted, found in (
            ("UID", deletion.uid, metadata["uid"]),
            ("ResourceVersion", deletion.resource_version, metadata["resourceVersion"]),
        ):
            if wanted is not None and wanted != found:
                raise status.precondition(self._kind.target, metadata["name"], field=name, wanted=wanted, found=found)
