"""The life of a node claim: scheduled to a node type, provisioned, joined as a Node of the tenant cluster, given back.

The nodes are pretence: a Node object with the type's resources, Ready, on which the workload controller starts local
processes. Claims are made by the tenant cluster's own controller from its pools, or by hand.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

from provisioner.domain.clock import Clock
from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import (
    Condition,
    add_finalizer,
    drop_finalizer,
    find_condition,
    timestamp,
    true_since,
    write_conditions,
)
from provisioner.embedded.controllers.kinds import (
    DEVICE_CLASS,
    INSTANCE,
    NODE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    NODE_PROFILE,
    NODE_TYPE,
    PROJECT,
    RESOURCE_SLICE,
    project_of,
)
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.nodes.devices import DRIVER, resource_slice, slice_name
from provisioner.embedded.controllers.nodes.selection import choose_node_type, properties_of
from provisioner.embedded.controllers.quota import allows_node_type
from provisioner.embedded.faults import Failure, Faults

_MANAGER = "vcluster-platform"
_WAIT_SECONDS, _RESYNC_SECONDS = 0.2, 1.0


class Claims:
    """NodeClaim -> NodeType, NodeEnvironment, Node."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self._faults = faults
        self._clock = clock
        self._choosing = asyncio.Lock()  # two claims must not both take the last node of a type

    def controllers(self) -> tuple[Controller, ...]:
        """One for claims, one for the environments that they need."""
        return (
            Controller("node claims", (Watch(NODE_CLAIM),), self.reconcile),
            Controller("node environments", (Watch(NODE_ENVIRONMENT),), self.reconcile_environment),
        )

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Move a claim one stage on, or give it back."""
        claim = await cluster.api.get(NODE_CLAIM, key.name, namespace=key.namespace)
        if claim is None:
            return None
        if claim["metadata"].get("deletionTimestamp"):
            return await self._give_back(cluster, claim)
        if not spec_of(claim).get("vClusterRef"):
            return None  # of a standalone cluster, of which there are none here
        claim = await add_finalizer(cluster.api, NODE_CLAIM, claim)
        if not is_true(claim, "Scheduled"):
            async with self._choosing:
                return await self._schedule(cluster, claim)
        if not await self._is_environment_available(cluster, claim):
            return _WAIT_SECONDS
        if not is_true(claim, "Provisioned"):
            return await self._provision(cluster, claim)
        return await self._join(cluster, claim)

    async def reconcile_environment(self, cluster: Cluster, key: Key) -> float | None:
        """An environment needs nothing here: it is Available at once."""
        found = await cluster.api.get(NODE_ENVIRONMENT, key.name, namespace=key.namespace)
        if found is not None:
            conditions = [Condition(name, True) for name in ("Provisioned", "Synced")]
            await write_conditions(
                cluster.api, NODE_ENVIRONMENT, found, conditions, now=self._clock.now(), phase="Available"
            )
        return None

    async def _schedule(self, cluster: Cluster, claim: Json) -> float | None:
        project = await cluster.api.get(PROJECT, project_of(claim["metadata"]["namespace"]))
        types = await cluster.api.list(NODE_TYPE)
        allowed = [kind for kind in types if project and allows_node_type(project, kind["metadata"]["name"])]
        others = [
            other
            for other in await cluster.api.list(NODE_CLAIM)
            if other["metadata"]["uid"] != claim["metadata"]["uid"]
        ]
        claimed = Counter(str(spec_of(other).get("typeRef")) for other in others)
        chosen = spec_of(claim).get("typeRef") or choose_node_type(claim, allowed, claimed)
        if chosen is None:
            message = "no node type matches the requirements, is allowed in the project and has capacity left"
            await self._write(cluster, claim, Condition("Scheduled", False, "NoNodeType", message, "Error"))
            return _WAIT_SECONDS
        metadata = claim["metadata"]
        environment = f"{claim['spec']['vClusterRef']}-{claim['spec']['providerRef']}"
        claim = await cluster.api.patch(
            NODE_CLAIM,
            metadata["name"],
            {"spec": {"typeRef": chosen, "environmentRef": environment}},
            namespace=metadata["namespace"],
        )
        await self._write(cluster, claim, Condition("Scheduled", True))
        return None

    async def _is_environment_available(self, cluster: Cluster, claim: Json) -> bool:
        spec, namespace = spec_of(claim), claim["metadata"]["namespace"]
        found = await cluster.api.get(NODE_ENVIRONMENT, spec["environmentRef"], namespace=namespace)
        if found is None:
            wanted = {field: spec[field] for field in ("providerRef", "vClusterRef")} | {"controlPlane": False}
            manifest = {"metadata": {"name": spec["environmentRef"], "namespace": namespace}, "spec": wanted}
            found = await cluster.api.apply(NODE_ENVIRONMENT, manifest, manager=_MANAGER)
        return (found.get("status") or {}).get("phase") == "Available"

    async def _provision(self, cluster: Cluster, claim: Json) -> float | None:
        gate = self._faults.gate("capacity", since=self._scheduled_at(claim), now=self._clock.now())
        if isinstance(gate, Failure):
            failed = Condition("Provisioned", False, gate.reason, gate.message, "Error")
            await self._write(cluster, claim, failed, phase="Failed")
            return _WAIT_SECONDS
        if gate is None:
            await self._write(cluster, claim, Condition("Provisioned", True))
        return gate

    async def _join(self, cluster: Cluster, claim: Json) -> float:
        """Keep the Node there: also after somebody deleted it, and not Ready while the stage is taken back."""
        metadata = claim["metadata"]
        tenant = cluster.tenant(project_of(metadata["namespace"]), claim["spec"]["vClusterRef"])
        ready = not self._faults.at("capacity").back
        try:
            node = await tenant.api.get(NODE, metadata["name"])
            if node is None:
                node = await tenant.api.apply(NODE, await self._node(cluster, claim), manager=_MANAGER)
            node = await self._write_node_status(tenant, node, claim, ready=ready)
            await self._publish_devices(tenant, node)
        except (NotFoundError, RetryableError):
            return _WAIT_SECONDS  # the tenant's API server is not up
        message = "" if ready else "the kubelet stopped posting node status"
        await self._write(cluster, claim, Condition("Joined", ready, "" if ready else "NodeLost", message, "Error"))
        return _RESYNC_SECONDS

    async def _node(self, cluster: Cluster, claim: Json) -> Json:
        spec, name = spec_of(claim), claim["metadata"]["name"]
        profile = await cluster.api.get(NODE_PROFILE, spec["profileRef"]) if spec.get("profileRef") else None
        added = spec_of(profile) if profile else {}
        node_type = await cluster.api.get(NODE_TYPE, spec["typeRef"])
        labels = {
            "kubernetes.io/hostname": name,
            **(properties_of(node_type) if node_type else {}),
            **(added.get("nodeLabels") or {}),
            **(claim["metadata"].get("labels") or {}),
        }
        annotations = added.get("nodeAnnotations") or {}
        taints = [*(spec.get("taints") or ()), *(added.get("taints") or ())]
        return {
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"providerID": f"embedded://{claim['metadata']['namespace']}/{name}", "taints": taints},
        }

    async def _publish_devices(self, tenant: Cluster, node: Json) -> None:
        """What a DRA driver does on each node of a tenant cluster that has a class of devices to claim."""
        wanted = resource_slice(node)
        try:
            if wanted is None or not await tenant.api.list(DEVICE_CLASS):
                return
        except NotFoundError:
            return  # an API server of before Kubernetes 1.34
        if await tenant.api.get(RESOURCE_SLICE, wanted["metadata"]["name"]) is None:
            await tenant.api.apply(RESOURCE_SLICE, wanted, manager=DRIVER)

    async def _write_node_status(self, tenant: Cluster, node: Json, claim: Json, *, ready: bool) -> Json:
        node_type = await tenant.control_plane.get(NODE_TYPE, spec_of(claim)["typeRef"])
        resources = {"pods": "110", **((spec_of(node_type).get("resources") or {}) if node_type else {})}
        before = find_condition(node, "Ready") or {}
        status = "True" if ready else "Unknown"
        changed = before.get("status") != status
        now = timestamp(self._clock.now())
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "KubeletReady" if ready else "NodeStatusUnknown",
            "message": "a pretended node of the embedded control plane"
            if ready
            else "Kubelet stopped posting node status.",
            "lastHeartbeatTime": now if changed else before["lastHeartbeatTime"],
            "lastTransitionTime": now if changed else before["lastTransitionTime"],
        }
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": "localhost"}]
        wanted = {"capacity": resources, "allocatable": resources, "conditions": [condition], "addresses": addresses}
        return await tenant.api.write_status(NODE, node, wanted)

    async def _give_back(self, cluster: Cluster, claim: Json) -> float | None:
        metadata = claim["metadata"]
        name = spec_of(claim).get("vClusterRef")
        instance = await cluster.api.get(INSTANCE, name, namespace=metadata["namespace"]) if name else None
        if name and instance is not None and is_true(instance, "VirtualClusterReady"):
            tenant = cluster.tenant(project_of(metadata["namespace"]), name).api
            await tenant.delete(NODE, metadata["name"])
            await tenant.delete(RESOURCE_SLICE, slice_name(metadata["name"]))
        await drop_finalizer(cluster.api, NODE_CLAIM, claim)
        return None

    def _scheduled_at(self, claim: Json) -> datetime:
        return true_since(claim, "Scheduled") or self._clock.now()

    async def _write(self, cluster: Cluster, claim: Json, condition: Condition, *, phase: str | None = None) -> None:
        if phase is None:
            phase = "Available" if condition.type == "Joined" and condition.met else "Pending"
        text = {} if condition.met else {"reason": condition.reason, "message": condition.message}
        status = {"phase": phase, "reason": "", "message": "", **text}
        await write_conditions(cluster.api, NODE_CLAIM, claim, (condition,), now=self._clock.now(), **status)
