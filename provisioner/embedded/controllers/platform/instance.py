"""The life of a tenant cluster: template resolved, scheduled, deployed, ready; its objects, nodes and Applications
made; everything given back when it is deleted.

One reconcile looks at all of it and writes the status once, so that conditions never fight. The order and the words are
the Platform's as seen from outside; the cluster itself is a store of the API server that answers once
VirtualClusterReady is True.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import (
    Condition,
    add_finalizer,
    drop_finalizer,
    true_since,
    write_conditions,
)
from provisioner.embedded.controllers.kinds import (
    APPLICATION,
    INSTANCE,
    NODE_CLAIM,
    NODE_ENVIRONMENT,
    PROJECT,
    TEMPLATE,
    project_of,
)
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.manifests import parse_manifests, parse_mapping
from provisioner.embedded.controllers.platform.applications import ensure_applications
from provisioner.embedded.controllers.platform.config import (
    ChartError,
    TenantConfig,
    check_applications,
    check_chart,
    parse_config,
)
from provisioner.embedded.controllers.platform.lending import lend
from provisioner.embedded.controllers.platform.nodes import ensure_claims
from provisioner.embedded.controllers.platform.template import resolve
from provisioner.embedded.controllers.quota import allows_template, count_used, find_denial
from provisioner.embedded.controllers.templating import TemplateError
from provisioner.embedded.faults import Failure, Faults
from provisioner.platform.interface import Kind

KUBERNETES_VERSION = "v1.36.0"
_MANAGER = "vcluster-platform"
_WAIT_SECONDS, _RESYNC_SECONDS = 0.2, 1.0


@dataclass(slots=True)
class _Pass:
    """What one reconcile found out and is going to write."""

    cluster: Cluster
    instance: Json
    conditions: list[Condition] = field(default_factory=list)
    status: Json = field(default_factory=dict)
    again_seconds: float = _RESYNC_SECONDS

    @property
    def name(self) -> str:
        name: str = self.instance["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.instance["metadata"]["namespace"]
        return namespace

    def fail(self, condition: str, reason: str, message: str) -> None:
        """An error: before the first deployment it fails the instance, later it only shows."""
        self.conditions.append(Condition(condition, False, reason, message, "Error"))
        self.status |= {"reason": reason, "message": message}
        self.status["phase"] = "Ready" if is_true(self.instance, "VirtualClusterReady") else "Failed"


class Instances:
    """VirtualClusterInstance -> a tenant cluster with objects, node claims and Applications."""

    def __init__(self, *, faults: Faults, clock: Clock, platform_namespace: str) -> None:
        self._faults = faults
        self._clock = clock
        self._platform_namespace = platform_namespace
        self._admitting = asyncio.Lock()  # two instances must not both take the last of a quota

    def controller(self) -> Controller:
        """Looks at an instance again whenever something that it owns changes."""
        watches = (
            Watch(INSTANCE),
            Watch(NODE_CLAIM, _reference_key),
            Watch(NODE_ENVIRONMENT, _reference_key),
            Watch(APPLICATION, _destination_key),
        )
        return Controller("tenant clusters", watches, self.reconcile)

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Move the instance on as far as it goes, and write what was found."""
        instance = await cluster.api.get(INSTANCE, key.name, namespace=key.namespace)
        if instance is None:
            return None
        if instance["metadata"].get("deletionTimestamp"):
            return await self._reclaim(cluster, instance)
        instance = await add_finalizer(cluster.api, INSTANCE, instance)
        current = _Pass(cluster, instance, status={"phase": "Pending", "reason": "", "message": ""})
        rendered = await self._resolve(current)
        if rendered is not None and await self._admit(current, rendered[0]):
            await self._advance(current, *rendered)
        await write_conditions(
            cluster.api, INSTANCE, current.instance, current.conditions, now=self._clock.now(), **current.status
        )
        return current.again_seconds

    async def _resolve(self, current: _Pass) -> tuple[Json, TenantConfig] | None:
        name = (spec_of(current.instance).get("templateRef") or {}).get("name")
        template = await current.cluster.api.get(TEMPLATE, name) if name else None
        try:
            rendered = resolve(current.instance, template)
            text = (rendered.get("helmRelease") or {}).get("values") or ""
            config = parse_config(parse_mapping(text, what="helmRelease.values"))
            check_applications(config)
        except TemplateError as error:
            current.fail("TemplateResolved", error.reason, error.message)
            return None
        except RejectedError as error:
            current.fail("TemplateResolved", "ErrorModifyingTemplate", error.message)
            return None
        except ChartError as error:
            current.conditions.append(Condition("TemplateResolved", True))
            current.fail("VirtualClusterDeployed", "ControlPlaneCrashing", str(error))
            return None
        current.conditions += [Condition("TemplateResolved", True), Condition("TemplateSynced", True)]
        return rendered, config

    async def _admit(self, current: _Pass, rendered: Json) -> bool:
        """Whether the project lets this instance be; asked once, before it is scheduled."""
        if is_true(current.instance, "Scheduled"):
            return True
        async with self._admitting:
            denial = await self._find_denial(current)
            if denial is not None:
                current.fail("Scheduled", "Forbidden", denial)
                return False
            metadata, reference = current.instance["metadata"], spec_of(current.instance).get("clusterRef") or {}
            filled = {
                "cluster": reference.get("cluster") or "control-plane",
                "namespace": reference.get("namespace") or f"loft-{project_of(current.namespace)}-v-{current.name}",
                "virtualCluster": reference.get("virtualCluster") or current.name,
            }
            added = ((rendered.get("instanceTemplate") or {}).get("metadata") or {}).get("labels") or {}
            patch = {
                "metadata": {
                    "resourceVersion": metadata["resourceVersion"],
                    "labels": {**added, **(metadata.get("labels") or {})},
                },
                "spec": {"clusterRef": filled},
            }
            stored = await current.cluster.api.patch(INSTANCE, current.name, patch, namespace=current.namespace)
            conditions = [*current.conditions, Condition("Scheduled", True), Condition("SpaceReady", True)]
            current.instance = await write_conditions(
                current.cluster.api, INSTANCE, stored, conditions, now=self._clock.now(), phase="Pending"
            )
        return True

    async def _find_denial(self, current: _Pass) -> str | None:
        api, name = current.cluster.api, project_of(current.namespace)
        project = await api.get(PROJECT, name)
        if project is None:
            return f"project {name} not found"
        template = (spec_of(current.instance).get("templateRef") or {}).get("name")
        if template and not allows_template(project, template):
            return f"virtual cluster template {template} is not allowed in project {name}"
        others = await api.list(INSTANCE, namespace=current.namespace)
        scheduled = [other for other in others if is_true(other, "Scheduled")]
        keys = ["virtualclusterinstances", "virtualclusterinstances.active"]
        keys += [f"virtualclusterinstances.template={template}"] if template else []
        used = {key: count_used(key, instances=scheduled) for key in keys}
        return find_denial(project, "virtualclusterinstance", used)

    async def _advance(self, current: _Pass, rendered: Json, config: TenantConfig) -> None:
        try:
            check_chart(config)
        except ChartError as error:
            current.fail("VirtualClusterDeployed", "ControlPlaneCrashing", str(error))
            return
        if not self._deploy(current):
            return
        current.status |= {"phase": "Ready", "online": True, "virtualCluster": rendered}
        current.status["kubernetesVersion"] = KUBERNETES_VERSION
        if not is_true(current.instance, "VirtualClusterReady"):
            current.again_seconds = 0.0  # the tenant's API answers once this is written
            return
        await self._apply_objects(current, rendered)
        tenant = current.cluster.tenant(project_of(current.namespace), current.name)
        await lend(current.cluster, tenant.api, config, now=self._clock.now())
        current.conditions += [
            await ensure_applications(
                current.cluster, current.instance, config, platform_namespace=self._platform_namespace
            ),
            await ensure_claims(current.cluster, current.instance, config, self._clock),
        ]

    def _deploy(self, current: _Pass) -> bool:
        """Whether the tenant's control plane is up, as far as delays and faults let it."""
        since = true_since(current.instance, "Scheduled") or self._clock.now()
        gate = self._faults.gate("tenant_cluster", since=since, now=self._clock.now())
        if gate is None:
            names = ("VirtualClusterDeployed", "VirtualClusterSynced", "VirtualClusterReady", "VirtualClusterOnline")
            current.conditions += [Condition(name, True) for name in names]
            return True
        if isinstance(gate, Failure):
            current.fail("VirtualClusterDeployed", gate.reason, gate.message)
            return False
        current.again_seconds = gate
        if is_true(current.instance, "VirtualClusterReady") and not self._faults.at("tenant_cluster").back:
            return True  # a delay or a hang does not take back what was reached
        text = "the tenant cluster's control plane is starting"
        current.status["online"] = False
        for name in ("VirtualClusterReady", "VirtualClusterOnline"):
            current.conditions.append(Condition(name, False, "ControlPlaneNotReady", text, "Info"))
        return False

    async def _apply_objects(self, current: _Pass, rendered: Json) -> None:
        text = rendered.get("objects") or ""
        digest = hashlib.sha256(json.dumps(rendered, sort_keys=True).encode()).hexdigest()
        done = "VirtualClusterAppsAndObjectsSynced"
        if (current.instance["status"].get("deployHash") == digest) and is_true(current.instance, done):
            return
        tenant = current.cluster.tenant(project_of(current.namespace), current.name)
        try:
            for manifest in parse_manifests(text, what="the template's objects"):
                kind = await tenant.api.kind_of(manifest["apiVersion"], manifest["kind"])
                await tenant.api.apply(kind, manifest, manager=_MANAGER)
        except TenantryError as error:
            current.conditions.append(Condition(done, False, "ErrorApplyingObjects", error.message, "Error"))
            current.again_seconds = _WAIT_SECONDS
            return
        current.conditions.append(Condition(done, True))
        current.status["deployHash"] = digest

    async def _reclaim(self, cluster: Cluster, instance: Json) -> float | None:
        """Give back Applications, then nodes, then environments; the instance goes last, and its store with it."""
        name, namespace = instance["metadata"]["name"], instance["metadata"]["namespace"]
        applications = await cluster.api.list(APPLICATION, namespace=namespace)
        stages = (
            (APPLICATION, [entry for entry in applications if _destination(entry) == name]),
            (NODE_CLAIM, await _referring(cluster, NODE_CLAIM, name, namespace)),
            (NODE_ENVIRONMENT, await _referring(cluster, NODE_ENVIRONMENT, name, namespace)),
        )
        for kind, left in stages:
            for entry in left:
                if not entry["metadata"].get("deletionTimestamp"):
                    await cluster.api.delete(kind, entry["metadata"]["name"], namespace=namespace)
            if left:
                message = f"waiting for {len(left)} {kind.plural}"
                waiting = Condition("ExternalResourcesCleanedUp", False, "Waiting", message, "Info")
                await write_conditions(cluster.api, INSTANCE, instance, (waiting,), now=self._clock.now())
                return _WAIT_SECONDS
        await drop_finalizer(cluster.api, INSTANCE, instance)
        return None


async def _referring(cluster: Cluster, kind: Kind, name: str, namespace: str) -> Sequence[Json]:
    return [
        entry
        for entry in await cluster.api.list(kind, namespace=namespace)
        if spec_of(entry).get("vClusterRef") == name
    ]


def _destination(application: Json) -> str | None:
    destination = spec_of(application).get("destination") or {}
    name: str | None = (destination.get("virtualCluster") or {}).get("name")
    return name


def _reference_key(found: Json) -> Iterable[Key]:
    name = spec_of(found).get("vClusterRef")
    return (Key(found["metadata"]["namespace"], name),) if name else ()


def _destination_key(found: Json) -> Iterable[Key]:
    name = _destination(found)
    return (Key(found["metadata"]["namespace"], name),) if name else ()
