"""ArgoCDApplication -> resources in a tenant cluster, and `status.application` as Argo CD reports it.

Polls the delivery repository, or looks at once when the refresh annotation asks for it; syncs by itself when the
policy is automated; heals drift; deletes what it made when the object goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from provisioner.domain.clock import Clock
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.argocd.health import HEALTHY, Health
from provisioner.embedded.controllers.argocd.repository import Repository
from provisioner.embedded.controllers.argocd.source import Wanted, resolve
from provisioner.embedded.controllers.argocd.sync import Comparison, Target
from provisioner.embedded.controllers.conditions import (
    Condition,
    add_finalizer,
    drop_finalizer,
    timestamp,
    write_conditions,
)
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE, project_of
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.templating import TemplateError
from provisioner.embedded.faults import Failure, Faults

REFRESH = "argocd.argoproj.io/refresh"
_BUSY_SECONDS, _CALM_SECONDS = 0.2, 1.5
_TOLD = "played by the embedded control plane, nothing is installed from: "


@dataclass(slots=True)
class _Look:
    """One reconcile of one Application: what was read, and the status to be written."""

    cluster: Cluster
    application: Json
    wanted: Wanted
    target: Target
    status: Json = field(default_factory=dict)
    again_seconds: float = _CALM_SECONDS

    @property
    def before(self) -> Json:
        """`status.application` as it was read."""
        before: Json = (self.application.get("status") or {}).get("application") or {}
        return before


class Applications:
    """Argo CD for the tenant clusters of one control plane; `poll_seconds` is how often the repository is read."""

    def __init__(self, *, repository: Repository, faults: Faults, clock: Clock, poll_seconds: float = 3.0) -> None:
        self._repository = repository
        self._faults = faults
        self._clock = clock
        self._poll = timedelta(seconds=poll_seconds)
        self._heads: dict[tuple[str, str], tuple[datetime, str]] = {}
        self._trees: dict[tuple[str, str], list[Json]] = {}

    def controller(self) -> Controller:
        """The controller; it runs over the control plane cluster."""
        return Controller("argo cd", (Watch(APPLICATION),), self.reconcile)

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Look at an Application, sync it as far as it goes, and write what was found."""
        application = await cluster.api.get(APPLICATION, key.name, namespace=key.namespace)
        if application is None:
            return None
        instance = await self._instance(cluster, application)
        if application["metadata"].get("deletionTimestamp"):
            return await self._remove(cluster, application, instance)
        application = await add_finalizer(cluster.api, APPLICATION, application)
        try:
            wanted = await resolve(cluster.api, application)
        except TemplateError as error:
            await self._write(cluster, application, Condition("Synced", False, error.reason, error.message, "Error"))
            return _CALM_SECONDS
        if instance is None or not is_true(instance, "VirtualClusterReady"):
            message = "the tenant cluster is not registered with Argo CD yet"
            pending = Condition("Synced", False, "ClusterRegistrationPending", message, "Info")
            await self._write(cluster, application, pending)
            return _BUSY_SECONDS
        look = _Look(cluster, application, wanted, _target(cluster, application, instance))
        await self._look(look)
        await self._write(cluster, application, Condition("Synced", True), look.status)
        await self._forget_refresh(look)
        return look.again_seconds

    async def _instance(self, cluster: Cluster, application: Json) -> Json | None:
        """The tenant cluster that is the destination."""
        name = ((spec_of(application).get("destination") or {}).get("virtualCluster") or {}).get("name")
        namespace = application["metadata"]["namespace"]
        return await cluster.api.get(INSTANCE, name, namespace=namespace) if name else None

    async def _look(self, look: _Look) -> None:
        own = [source for source in look.wanted.sources if self._repository.is_source(source.get("repoURL", ""))]
        others = [source for source in look.wanted.sources if source not in own]
        revision = others[0].get("targetRevision", "") if others else ""
        compared = {"source": look.wanted.sources[0], "destination": look.wanted.spec.get("destination") or {}}
        look.status = {"conditions": None, "sync": {"status": "Unknown", "revision": revision, "comparedTo": compared}}
        try:
            manifests: list[Json] = []
            for source in own:
                commit = await self._head(look, source.get("targetRevision", "HEAD"))
                look.status["sync"]["revision"] = commit
                manifests += await self._tree(commit, source.get("path", ""))
            known = look.before.get("resources") or ()
            comparison = await look.target.compare(manifests, namespace=look.wanted.namespace, known=known)
        except (NotFoundError, RejectedError) as error:
            self._report(look, "ComparisonError", error.message, health=Health("Unknown"))
            return
        look.status["resourceHealthSource"] = "appTree"
        await self._sync(look, comparison)
        if others and not own:
            played = _TOLD + ", ".join(str(source.get("chart") or source.get("path") or "") for source in others)
            self._report(look, "Played", played, health=HEALTHY)

    async def _sync(self, look: _Look, comparison: Comparison) -> None:
        """Begin, continue or end a sync, unless there is nothing to do, and say how it stands."""
        revision = look.status["sync"]["revision"]
        before: Json = look.before.get("operationState") or {}
        fresh = ((before.get("operation") or {}).get("sync") or {}).get("revision") != revision
        done = not fresh and before.get("phase") == "Succeeded"
        automated = look.wanted.automated or {}
        back = self._faults.at("argo_sync").back
        self._fill(look, comparison, synced=comparison.is_synced and done and not back)
        healed = comparison.is_settled(prunes=bool(automated.get("prune"))) or not automated.get("selfHeal")
        if look.wanted.automated is None or (done and (healed or back)):
            look.status["operationState"] = before or None
            return
        if automated.get("prune") and not automated.get("allowEmpty") and comparison.wipes_out:
            look.status["operationState"] = before or None
            message = f"not syncing to {revision}: nothing that is there would be left"
            self._report(look, "SyncError", message, health=comparison.health)
            return
        now = self._clock.now()
        again = fresh or done
        started = now if again else datetime.fromisoformat(before["startedAt"])
        operation = {"sync": {"revision": revision}, "initiatedBy": {"automated": True}}
        state: Json = {"phase": "Running", "startedAt": timestamp(started), "operation": operation}
        state |= {"message": None, "finishedAt": None, "syncResult": None}  # those of a former sync
        look.again_seconds = _BUSY_SECONDS
        look.status["operationState"] = state
        gate = self._faults.gate("argo_sync", since=started, now=now)
        if isinstance(gate, Failure):
            self._end(look, "Failed", f"{gate.reason}: {gate.message}")
        elif gate is not None:
            state["message"] = "waiting for the sync to start"
            look.again_seconds = gate
        elif again:
            # Written before anything is applied, so that what a killed process applied is known and can be pruned.
            look.again_seconds = 0.0
        else:
            await self._apply(look, comparison)

    async def _apply(self, look: _Look, comparison: Comparison) -> None:
        automated = look.wanted.automated or {}
        try:
            if look.wanted.creates_namespace:
                await look.target.ensure_namespace(look.wanted.namespace)
            after, waiting = await look.target.apply(comparison)
            if waiting is None and automated.get("prune"):
                await look.target.prune(resource for resource in after.resources if resource.wanted is None)
        except RejectedError as error:
            self._end(look, "Failed", error.message)
            return
        self._fill(look, after, synced=waiting is None and after.is_synced)
        if waiting is not None:
            look.status["operationState"]["message"] = waiting
        else:
            self._end(look, "Succeeded", "successfully synced (all tasks run)")

    def _fill(self, look: _Look, comparison: Comparison, *, synced: bool) -> None:
        look.status["sync"]["status"] = "Synced" if synced else "OutOfSync"
        look.status["resources"] = [resource.status() for resource in comparison.resources]
        self._set_health(look, comparison.health)

    def _end(self, look: _Look, phase: str, message: str) -> None:
        state = look.status["operationState"]
        state |= {"phase": phase, "message": message, "finishedAt": timestamp(self._clock.now())}
        state["syncResult"] = {"revision": look.status["sync"]["revision"]}
        if phase == "Failed":
            self._report(look, "SyncError", message, health=Health("Degraded", message))

    def _report(self, look: _Look, kind: str, message: str, *, health: Health) -> None:
        moment = timestamp(self._clock.now())
        for entry in look.before.get("conditions") or ():
            if entry["type"] == kind and entry["message"] == message:
                moment = entry["lastTransitionTime"]
        look.status["conditions"] = [{"type": kind, "message": message, "lastTransitionTime": moment}]
        self._set_health(look, health if kind != "Played" else Health("Healthy", message))

    def _set_health(self, look: _Look, health: Health) -> None:
        before: Json = look.before.get("health") or {}
        same = before.get("status") == health.status
        moment = before["lastTransitionTime"] if same else timestamp(self._clock.now())
        look.status["health"] = {"status": health.status, "message": health.message, "lastTransitionTime": moment}
        if health.status not in ("Healthy", "Suspended"):
            look.again_seconds = min(look.again_seconds, _BUSY_SECONDS)

    async def _head(self, look: _Look, revision: str) -> str:
        """The commit a revision is at: polled, or read at once when a refresh is asked for."""
        key = (look.application["metadata"]["uid"], revision)
        now = self._clock.now()
        asked = REFRESH in (look.application["metadata"].get("annotations") or {})
        if asked or key not in self._heads or now - self._heads[key][0] >= self._poll:
            self._heads[key] = now, await self._repository.commit(revision)
        return self._heads[key][1]

    async def _tree(self, commit: str, path: str) -> Sequence[Json]:
        key = (commit, path)
        if key not in self._trees:
            if len(self._trees) >= 256:
                self._trees.clear()
            self._trees[key] = await self._repository.read(commit, path)
        return self._trees[key]

    async def _forget_refresh(self, look: _Look) -> None:
        metadata = look.application["metadata"]
        if REFRESH in (metadata.get("annotations") or {}):
            patch = {"metadata": {"annotations": {REFRESH: None}}}
            await look.cluster.api.patch(APPLICATION, metadata["name"], patch, namespace=metadata["namespace"])

    async def _remove(self, cluster: Cluster, application: Json, instance: Json | None) -> float | None:
        """Delete what was made. A tenant cluster that is going away while it does not answer takes it along; one that
        stays is waited for."""
        known = ((application.get("status") or {}).get("application") or {}).get("resources") or ()
        if known and instance is not None:
            answers = is_true(instance, "VirtualClusterReady")
            if answers and await _target(cluster, application, instance).remove(known):
                return _BUSY_SECONDS
            if not answers and not instance["metadata"].get("deletionTimestamp"):
                return _CALM_SECONDS
        self._heads = {key: head for key, head in self._heads.items() if key[0] != application["metadata"]["uid"]}
        await drop_finalizer(cluster.api, APPLICATION, application)
        return None

    async def _write(
        self, cluster: Cluster, application: Json, condition: Condition, status: Json | None = None
    ) -> None:
        fields = {"application": status} if status is not None else {}
        await write_conditions(cluster.api, APPLICATION, application, (condition,), now=self._clock.now(), **fields)


def _target(cluster: Cluster, application: Json, instance: Json) -> Target:
    metadata = instance["metadata"]
    tenant = cluster.tenant(project_of(metadata["namespace"]), metadata["name"])
    return Target(tenant.api, application["metadata"]["name"])
