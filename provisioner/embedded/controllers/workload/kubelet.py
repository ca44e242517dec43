"""The kubelet of every node: a pod that is bound becomes a process, and the process's own health the pod's readiness.

Order on purpose: the address is written before the process starts, so that a plane that was killed in between finds
what it started; a deleted pod's process ends before the pod goes. Processes whose pod or tenant cluster is gone are
ended too. Liveness probes are not played: a process that hangs stays, not ready, and is seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import aiohttp

from provisioner.domain.clock import Clock
from provisioner.embedded.children import Child, Children
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import timestamp, true_since, write_conditions
from provisioner.embedded.controllers.core.kinds import ADDRESS_ANNOTATION, LOG_ANNOTATION
from provisioner.embedded.controllers.kinds import INSTANCE, NAMESPACE, POD, project_of
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.controllers.workload.events import EventType, record_event
from provisioner.embedded.controllers.workload.lease import renew_lease
from provisioner.embedded.controllers.workload.pod_status import (
    ContainerState,
    container_status,
    derive_status,
    running,
    terminated,
    waiting,
)
from provisioner.embedded.controllers.workload.pods import is_final, is_terminating
from provisioner.embedded.controllers.workload.process import (
    HOST,
    command_line,
    free_port,
    readiness_probe,
    restart_delay,
)
from provisioner.embedded.engines.engine import Engine, Engines, find_engine
from provisioner.embedded.faults import Failure, Faults

_LOADING_SECONDS = 0.2
_READY_SECONDS = 1.0
_FORGOTTEN_GRACE_SECONDS = 2.0
_SWEEP = (Key(None, "strays"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """What all pods share: where processes live, what can run, and the weights' folder. `session` asks processes."""

    clock: Clock
    children: Children
    engines: Engines
    models: Path
    faults: Faults
    session: aiohttp.ClientSession
    _failures: dict[str, int] = field(default_factory=dict)  # probes in a row that failed, by pod uid
    _seen: dict[tuple[str, Key], str] = field(default_factory=dict)  # the uid of a pod, for a name may come back

    def tenant_controller(self) -> Controller:
        """Runs the pods of tenant clusters."""
        watches = (Watch(POD), Watch(NAMESPACE, keys=_sweep))  # there is always a namespace: it starts the sweep
        return Controller("kubelet", watches, self.reconcile, self.forget)

    def control_plane_controller(self) -> Controller:
        """Ends the processes of tenant clusters that went while no plane ran."""
        watches = (Watch(INSTANCE, keys=_sweep), Watch(NAMESPACE, keys=_sweep))
        return Controller("stray processes", watches, self._sweep_clusters)

    async def forget(self, cluster: Cluster) -> None:
        """End every process of a tenant cluster that is gone."""
        await self._end_all(name for name in self.children.names() if name.startswith(f"{cluster}/"))

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """One pod, or the processes without one."""
        pod = await cluster.api.get(POD, key.name, namespace=key.namespace) if key.namespace else None
        place = str(cluster), key
        if pod is None or self._seen.get(place) != pod["metadata"]["uid"]:
            await self._sweep_pods(cluster)
            self._seen.pop(place, None)
        if pod is None:
            return None
        self._seen[place] = pod["metadata"]["uid"]
        run = _Run(self, cluster.api, pod, self.children.child(f"{cluster}/{pod['metadata']['uid']}"))
        if is_terminating(pod):
            await run.end()
            return None
        if is_final(pod) or "nodeName" not in pod["spec"]:
            return None
        return await run.advance()

    async def _sweep_pods(self, cluster: Cluster) -> None:
        before = [name for name in self.children.names() if name.startswith(f"{cluster}/")]
        if not before:
            return
        living = {f"{cluster}/{pod['metadata']['uid']}" for pod in await cluster.api.list(POD)}
        await self._end_all(name for name in before if name not in living)

    async def _sweep_clusters(self, cluster: Cluster, _: Key) -> float | None:
        before = self.children.names()
        living = set()
        for found in await cluster.api.list(INSTANCE):
            metadata = found["metadata"]
            living.add(f"{project_of(metadata['namespace'])}/{metadata['name']}")
        await self._end_all(name for name in before if name.rpartition("/")[0] not in living)
        return None

    async def _end_all(self, names: Iterable[str]) -> None:
        for name in list(names):
            await self.children.end(name, grace_seconds=_FORGOTTEN_GRACE_SECONDS)


def _sweep(_: Json) -> Iterable[Key]:
    return _SWEEP


@dataclass(frozen=True, slots=True)
class _Run:
    """One look at one pod."""

    kubelet: Kubelet
    api: Api
    pod: Json
    child: Child

    async def end(self) -> None:
        """End the process, and only then confirm that the pod is gone."""
        metadata = self.pod["metadata"]
        grace_seconds = float(metadata.get("deletionGracePeriodSeconds") or 0)
        await self.kubelet.children.end(self.child.name, grace_seconds=grace_seconds)
        self.kubelet._failures.pop(metadata["uid"], None)
        await self.api.delete(POD, metadata["name"], namespace=metadata["namespace"], grace_seconds=0)

    async def advance(self) -> float | None:
        """Bring the pod one step on and write what is true of it; seconds until the next look."""
        container = self.pod["spec"]["containers"][0]
        engine = find_engine(self.kubelet.engines, container["image"])
        if engine is None:
            message = f'Back-off pulling image "{container["image"]}": no local engine stands for it'
            await self._write(ContainerState(state=waiting("ImagePullBackOff", message)))
            await self._tell("Failed", message, type_="Warning")
            return None
        if (held := await self._hold()) is not None:
            return held
        if self.child.is_alive() and self._address() is not None:
            return await self._watch(container)
        before = container_status(self.pod)
        state = before.get("state") or {}
        if "running" in state:
            return await self._record_end(before)
        ended = (before.get("lastState") or {}).get("terminated")
        if ended is not None and (left := self._backoff(before["restartCount"], ended)) > 0:
            return left
        await self._start(engine, container, before)
        return _LOADING_SECONDS

    async def _hold(self) -> float | None:
        """What an injected fault does to the pod: seconds until the next look, None for nothing."""
        now = self._now()
        since = true_since(self.pod, "PodScheduled") or now
        gate = self.kubelet.faults.gate("workload", since=since, now=now)
        if gate is None:
            return None
        if isinstance(gate, Failure):
            await self._write(ContainerState(state=waiting(gate.reason, gate.message)))
            return _READY_SECONDS
        state = container_status(self.pod).get("state") or waiting("ContainerCreating", "PullingImage")
        await self._write(ContainerState(state=state, is_started="running" in state))
        return gate

    async def _start(self, engine: Engine, container: Json, before: Json) -> None:
        metadata, port = self.pod["metadata"], free_port()
        annotations = {ADDRESS_ANNOTATION: f"{HOST}:{port}", LOG_ANNOTATION: f"{self.child.name}/log"}
        patch = {"metadata": {"annotations": annotations}}
        fresh = await self.api.patch(POD, metadata["name"], patch, namespace=metadata["namespace"])
        following = _Run(self.kubelet, self.api, fresh, self.child)
        if not before:
            following = await following._write(ContainerState(state=waiting("ContainerCreating", "PullingImage")))
            await self._tell("Pulled", f"a local engine stands for image {container['image']}")
            if engine.notice:
                await self._tell("StandInEngine", engine.notice, type_="Warning")
        command = command_line(engine, container, port=port, models=self.kubelet.models)
        self.kubelet.children.start(self.child.name, command)
        self.kubelet._failures.pop(metadata["uid"], None)
        started = ContainerState(
            state=running(timestamp(self._now())), restarts=before.get("restartCount", 0), last=before.get("lastState")
        )
        await following._write(started)

    async def _watch(self, container: Json) -> float:
        before = container_status(self.pod)
        is_ready = await self._is_healthy(container, was_ready=bool(before.get("ready")))
        state = before.get("state") or {}
        await self._write(
            ContainerState(
                state=state if "running" in state else running(timestamp(self._now())),
                is_ready=is_ready,
                is_started=is_ready or bool(before.get("started")),
                restarts=before.get("restartCount", 0),
                last=before.get("lastState"),
            )
        )
        if is_ready:
            await renew_lease(self.api, self.pod, now=self._now())
        return _READY_SECONDS if is_ready else _LOADING_SECONDS

    async def _record_end(self, before: Json) -> float | None:
        """The process of a running container is gone: start it again later, or let the pod be over."""
        ended = terminated(before["state"], exit_code=self.child.exit_code, now=self._now())
        code = ended["terminated"]["exitCode"]
        policy = self.pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            await self._write(ContainerState(state=ended, restarts=before["restartCount"]))
            return None
        state = waiting("CrashLoopBackOff", f"the process ended with exit code {code}; see its log")
        await self._write(ContainerState(state=state, restarts=before["restartCount"] + 1, last=ended))
        await self._tell("BackOff", f"restarting after exit code {code}", type_="Warning")
        return 0.0

    async def _is_healthy(self, container: Json, *, was_ready: bool) -> bool:
        probe, uid, failures = readiness_probe(container), self.pod["metadata"]["uid"], self.kubelet._failures
        timeout = aiohttp.ClientTimeout(total=probe.timeout_seconds)
        try:
            async with self.kubelet.session.get(f"http://{self._address()}{probe.path}", timeout=timeout) as answer:
                is_healthy = 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError):
            is_healthy = False
        failures[uid] = 0 if is_healthy else failures.get(uid, 0) + 1
        return is_healthy or (was_ready and failures[uid] < probe.failures)

    async def _write(self, container: ContainerState) -> _Run:
        conditions, fields = derive_status(self.pod, container, now=self._now())
        written = await write_conditions(self.api, POD, self.pod, conditions, now=self._now(), **fields)
        return _Run(self.kubelet, self.api, written, self.child)

    async def _tell(self, reason: str, message: str, *, type_: EventType = "Normal") -> None:
        await record_event(self.api, self.pod, reason=reason, message=message, now=self._now(), type_=type_)

    def _backoff(self, restarts: int, ended: Json) -> float:
        finished = datetime.fromisoformat(ended["finishedAt"])
        began = datetime.fromisoformat(ended.get("startedAt") or ended["finishedAt"])
        delay = restart_delay(restarts=restarts, ran_seconds=(finished - began).total_seconds())
        return delay - (self._now() - finished).total_seconds()

    def _address(self) -> str | None:
        found: str | None = (self.pod["metadata"].get("annotations") or {}).get(ADDRESS_ANNOTATION)
        return found

    def _now(self) -> datetime:
        return self.kubelet.clock.now()
