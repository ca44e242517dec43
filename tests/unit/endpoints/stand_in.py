"""Stand-ins for what the verbs touch outside: a Platform that one settles by hand, and a probe. They remember every
effect in the order in which it came."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from provisioner.catalog.site import Site
from provisioner.domain.errors import NotFoundError
from provisioner.domain.ids import EndpointId, KeyId, OperationId
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.snapshot import Backend
from provisioner.endpoints.workloads import workload_kind
from provisioner.platform.interface import Kind
from provisioner.platform.kinds import (
    APPLICATION,
    GATEWAY,
    HTTP_ROUTE,
    LEADER_WORKER_SET,
    LEASE,
    NAMESPACE,
    NODE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    POD,
    PROJECT,
    SCALED_OBJECT,
    STATEFUL_SET,
    VIRTUAL_CLUSTER_TEMPLATE,
)
from provisioner.probe.interface import ProbeResult
from tests.unit.endpoints.stand_in_cluster import NOW, StandInCluster
from tests.unit.endpoints.stand_in_delivery import objects_of

_DELIVERED = {kind.kind for kind in (HTTP_ROUTE, LEADER_WORKER_SET, POD, SCALED_OBJECT, STATEFUL_SET)}
STAGES = ("tenant_cluster", "capacity", "argo_sync", "route", "loading")


Conditions = list[dict[str, str]]


def true(*types: str) -> Conditions:
    """Conditions that hold."""
    return [{"type": name, "status": "True"} for name in types]


def false(name: str, reason: str, message: str = "", severity: str = "Error") -> dict[str, str]:
    """A condition that does not hold."""
    return {"type": name, "status": "False", "reason": reason, "message": message, "severity": severity}


@dataclass
class StandInPlatform:
    """The Platform, Argo CD, Gateway API, KEDA and the workload controllers: `settle` does what they would do by now.
    `reached` are the stages they have come to; a test takes some out to hold them back. Nothing moves while `stands`
    is True, nothing is taken away while `keeps` is; `busy` replicas serve a request that does not end; scalers see no
    traffic while it is `sleeping`; replicas of `stuck` revisions never load their model. Without `keda` what scales is
    a HorizontalPodAutoscaler: it keeps workloads within their bounds, and leaves those at none alone."""

    effects: list[str] = field(default_factory=list)
    reached: set[str] = field(default_factory=lambda: set(STAGES))
    tenants: dict[str, StandInCluster] = field(default_factory=dict)
    stands: bool = False
    keeps: bool = False
    busy: bool = False
    sleeping: bool = False
    keda: bool = True
    stuck: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cluster = StandInCluster(self.effects)

    def control_plane(self, name: str) -> StandInCluster:
        return self.cluster

    def tenant(self, control_plane: str, project: str, name: str) -> StandInCluster:
        if name in self.tenants:
            return self.tenants[name]
        absent = StandInCluster(self.effects)
        absent.trouble = NotFoundError(f"no such tenant cluster: {name}")
        return absent

    def publish(self, plan: EndpointPlan, **spec: Any) -> None:
        """A tier's template and the tenant's project."""
        self.cluster.put(
            VIRTUAL_CLUSTER_TEMPLATE,
            {"metadata": {"name": plan.placement.template}, "spec": {"versions": [{"version": "1.0.0"}]}},
        )
        self.cluster.put(PROJECT, {"metadata": {"name": plan.placement.project}, "spec": spec})
        self.cluster.put(NAMESPACE, {"metadata": {"name": f"p-{plan.placement.project}"}})

    def settle(
        self, plan: EndpointPlan, *, delivered: Mapping[str, bytes], commit: str | None, now: datetime = NOW
    ) -> None:
        """Bring everything as far as the reached stages say; take away what was deleted."""
        if self.stands:
            return
        key = ("VirtualClusterInstance", f"p-{plan.placement.project}", plan.placement.tenant_cluster)
        instance = self.cluster.objects.get(key)
        if instance is None or "deletionTimestamp" in instance["metadata"]:
            self._reclaim(plan)
            return
        if "tenant_cluster" in self.reached:
            synced = true("TemplateResolved", "VirtualClusterReady", "VirtualClusterAppsAndObjectsSynced")
            instance["status"] = {"phase": "Ready", "conditions": synced}
            self.tenants.setdefault(plan.placement.tenant_cluster, StandInCluster(self.effects))
            self._capacity(plan)
            self._argo(plan, delivered, commit)
            self._runtime(plan, delivered, now)

    def _reclaim(self, plan: EndpointPlan) -> None:
        if self.keeps:
            return
        for kind, place, name in list(self.cluster.objects):
            if place == f"p-{plan.placement.project}" and name.startswith(plan.placement.tenant_cluster):
                del self.cluster.objects[kind, place, name]
        self.tenants.pop(plan.placement.tenant_cluster, None)

    def _capacity(self, plan: EndpointPlan) -> None:
        namespace, name = f"p-{plan.placement.project}", plan.placement.tenant_cluster
        is_there = "capacity" in self.reached
        joined = true("Scheduled", "Provisioned", "Joined") if is_there else true("Scheduled")
        status = {"phase": "Available" if is_there else "Pending", "conditions": joined}
        claim = {"metadata": {"name": f"{name}-0", "namespace": namespace}, "spec": {"vClusterRef": name}}
        self.cluster.put(NODE_CLAIM, {**claim, "status": status})
        self.cluster.put(NODE_ENVIRONMENT, claim)
        if is_there:
            offered = {"cpu": "4", "nvidia.com/gpu": "8"}
            node = {"metadata": {"name": "node-0"}, "status": {"conditions": true("Ready"), "allocatable": offered}}
            self.tenants[name].put(NODE, node)

    def _argo(self, plan: EndpointPlan, delivered: Mapping[str, bytes], commit: str | None) -> None:
        if "argo_sync" not in self.reached:
            told: dict[str, Any] = {"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}}
        else:
            sets = objects_of(delivered, "statefulset")
            health = {each["workload"]: "Healthy" if self._loads(each["revision"]) else "Progressing" for each in sets}
            told = {
                "sync": {"status": "Synced", "revision": commit},
                "health": {"status": "Progressing" if "Progressing" in health.values() else "Healthy"},
                "resources": [
                    *({"kind": "StatefulSet", "name": name, "health": {"status": health[name]}} for name in health),
                    {"kind": "Service", "name": plan.workload},
                ],
            }
        name = f"{plan.endpoint}-runtime"
        namespace = f"p-{plan.placement.project}"
        if plan.tenancy == "customer" and (APPLICATION.kind, namespace, name) not in self.cluster.objects:
            return  # it is ours to make, and to take away
        known = self.cluster.objects.get((APPLICATION.kind, namespace, name), {"metadata": {}})
        labels = {"loft.sh/vcluster-instance-name": plan.placement.tenant_cluster}
        metadata = {**known["metadata"], "name": name, "namespace": namespace, "labels": labels}
        self.cluster.put(APPLICATION, {"metadata": metadata, "status": {"application": told}})

    def _runtime(self, plan: EndpointPlan, delivered: Mapping[str, bytes], now: datetime) -> None:
        if "argo_sync" not in self.reached:
            return
        tenant = self.tenants[plan.placement.tenant_cluster]
        tenant.put(NAMESPACE, {"metadata": {"name": "inference"}})
        is_routed = "route" in self.reached
        parents = [{"conditions": true("Accepted", "ResolvedRefs")}] if is_routed else []
        for (kind, place, _), customer in self.cluster.objects.items():
            if (kind, place) == (HTTP_ROUTE.kind, "tenantry"):
                customer["status"] = {"parents": parents}
        programmed = {"conditions": true("Accepted", "Programmed"), "addresses": [{"value": "127.0.0.1"}]}
        in_namespace(tenant, GATEWAY, "tenant", {"status": programmed if is_routed else {}})
        wanted: set[tuple[str, str]] = set()
        for route in objects_of(delivered, "httproute"):
            spec = {"hostnames": [route["host"]], "parentRefs": [{"name": "tenant"}]}
            name = route["host"].partition(".")[0]
            in_namespace(tenant, HTTP_ROUTE, name, {"spec": spec, "status": {"parents": parents}})
            wanted.add((HTTP_ROUTE.kind, name))
        bounds = {each["workload"]: each for each in objects_of(delivered, "scaledobject")}
        for each in objects_of(delivered, "statefulset"):
            wanted |= self._workload(tenant, workload_kind(plan), each, bounds[each["workload"]], now)
        for kind, place, name in list(tenant.objects):
            if kind in _DELIVERED and (kind, name) not in wanted and not (kind == POD.kind and self.busy):
                del tenant.objects[kind, place, name]

    def _workload(
        self, tenant: StandInCluster, kind: Kind, pods: Mapping[str, Any], bounds: Mapping[str, Any], now: datetime
    ) -> set[tuple[str, str]]:
        """A workload with as many replicas as its scaler wants; what belongs to it, by kind and name."""
        name, is_loaded = pods["workload"], self._loads(pods["revision"])
        scaler, replicas = (self._scaled if self.keda else self._bounded)(tenant, kind, name, bounds)
        ready = replicas if is_loaded else 0
        spec = {"spec": {**pods, "replicas": replicas}, "status": {"readyReplicas": ready}}
        owner = in_namespace(tenant, kind, name, spec)["metadata"]["uid"]
        made = {(kind.kind, name), *scaler}
        for ordinal in range(replicas):
            members = {f"{name}-{ordinal}": "0"}
            if kind == LEADER_WORKER_SET:
                members[f"{name}-{ordinal}-1"] = "1"
            for member, index in members.items():
                self._replica(tenant, pods, member, index, owner=owner, now=now if is_loaded else None)
                made.add((POD.kind, member))
        return made

    def _bounded(
        self, tenant: StandInCluster, kind: Kind, name: str, bounds: Mapping[str, Any]
    ) -> tuple[set[tuple[str, str]], int]:
        """What a HorizontalPodAutoscaler makes of the workload's own number."""
        known = tenant.objects.get((kind.kind, "inference", name))
        replicas = int(known["spec"]["replicas"]) if known else bounds["min"]
        return set(), max(bounds["min"], replicas) if replicas else 0

    def _scaled(
        self, tenant: StandInCluster, kind: Kind, name: str, bounds: Mapping[str, Any]
    ) -> tuple[set[tuple[str, str]], int]:
        """What KEDA wants, and its scaler."""
        known = tenant.objects.get((SCALED_OBJECT.kind, "inference", name))
        annotations = known["metadata"].get("annotations", {}) if known else {}
        scaler = in_namespace(tenant, SCALED_OBJECT, name, {"spec": dict(bounds)})
        scaler["metadata"]["annotations"] = annotations
        paused = annotations.get("autoscaling.keda.sh/paused-replicas")
        replicas = (0 if self.sleeping else bounds["min"]) if paused is None else int(paused)
        return {(SCALED_OBJECT.kind, name)}, replicas

    def _loads(self, revision: str) -> bool:
        return "loading" in self.reached and revision not in self.stuck

    def _replica(
        self,
        tenant: StandInCluster,
        pods: Mapping[str, Any],
        name: str,
        index: str,
        *,
        owner: str,
        now: datetime | None,
    ) -> None:
        state = {"name": "server", "state": {"running": {}}, "ready": now is not None}
        conditions = true("PodScheduled", "Ready") if now else true("PodScheduled")
        pod = {"spec": {"nodeName": "node-0"}, "status": {"containerStatuses": [state], "conditions": conditions}}
        known = tenant.objects.get((POD.kind, "inference", name))
        made = in_namespace(tenant, POD, name, pod)
        made["metadata"]["annotations"] = known["metadata"]["annotations"] if known else {}
        made["metadata"]["ownerReferences"] = [{"uid": owner}]
        made["metadata"]["labels"] |= {
            "tenantry.io/revision": pods["revision"],
            "tenantry.io/role": "server" if index == "0" else "worker",
            "leaderworkerset.sigs.k8s.io/name": pods["workload"],
            "leaderworkerset.sigs.k8s.io/worker-index": index,
        }
        lease = tenant.objects.get((LEASE.kind, "inference", name))
        if lease and now:
            lease["spec"] |= {"holderIdentity": name, "renewTime": now.isoformat()}


def in_namespace(tenant: StandInCluster, kind: Kind, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Store an object of the runtime; every tenant cluster of these tests is that of one endpoint."""
    labels = {"tenantry.io/endpoint": "ep-a"}
    return tenant.put(kind, {"metadata": {"name": name, "namespace": "inference", "labels": labels}, **body})


@dataclass
class StandInProbe:
    """A `Probe` with answers that tests change; knows a key by asking `knows`."""

    health: ProbeResult = field(default_factory=lambda: ProbeResult(ok=True))
    stranger: ProbeResult = field(default_factory=lambda: ProbeResult(ok=True))
    with_key: int = 200
    without_key: int = 401
    secrets: list[str] = field(default_factory=list)

    async def replica(self, backend: Backend, *, model: str, kind: str) -> ProbeResult:
        return self.health

    async def refuses_stranger(self, backend: Backend) -> ProbeResult:
        return self.stranger

    async def outside(self, url: str, *, alias: str, kind: str, secret: str | None) -> tuple[int, str]:
        if secret is None:
            return self.without_key, ""
        self.secrets.append(secret)
        return self.with_key, ""


class CountingIds:
    """Ids that count up."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def endpoint(self) -> EndpointId:
        return EndpointId(f"ep-{next(self._numbers)}")

    def operation(self) -> OperationId:
        return OperationId(f"op-{next(self._numbers)}")

    def key(self) -> KeyId:
        return KeyId(f"key-{next(self._numbers)}")

    def secret(self) -> str:
        return f"tnt-secret-{next(self._numbers):032}"


def site() -> Site:
    """A site with one region."""
    gateway = {"className": "local", "tenantClassName": "local", "issuer": "local", "clientCa": "PEM"}
    node_type = {"name": "gpu", "gpus": 1, "gpuMemoryBytes": 80, "cpu": "4", "memory": "8Gi"}
    values = {
        "name": "laptop",
        "profile": "dev",
        "tenantDomain": "tenants.example.com",
        "public": {"hostname": "{endpoint}.{tenant}.example.com"},
        "gateway": gateway,
        "regions": {"local": {"controlPlane": "control-plane", "providers": ["local"]}},
        "providers": [{"name": "local", "kind": "terraform", "nodeTypes": [node_type]}],
        "connector": "argocd-main",
        "delivery": {"url": "git", "argoUrl": "git"},
    }
    return Site.model_validate_json(json.dumps(values))
