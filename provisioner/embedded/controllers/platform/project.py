"""Projects: each has a namespace of its own, and its status says how much of every quota is used."""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import add_finalizer, drop_finalizer
from provisioner.embedded.controllers.kinds import (
    INSTANCE,
    NAMESPACE,
    NODE_CLAIM,
    PROJECT,
    project_namespace,
    project_of,
)
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.controllers.quota import count_used, project_limits

_WAIT_SECONDS = 0.2


def project_controller() -> Controller:
    """Looks at a project again whenever something that its quotas count comes or goes."""
    return Controller(
        "projects", (Watch(PROJECT), Watch(INSTANCE, _project_key), Watch(NODE_CLAIM, _project_key)), _reconcile
    )


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    project = await cluster.api.get(PROJECT, key.name)
    namespace = project_namespace(key.name)
    if project is None:
        return None
    if project["metadata"].get("deletionTimestamp"):
        if await cluster.api.delete(NAMESPACE, namespace):
            return _WAIT_SECONDS
        await drop_finalizer(cluster.api, PROJECT, project)
        return None
    project = await add_finalizer(cluster.api, PROJECT, project)
    if await cluster.api.get(NAMESPACE, namespace) is None:
        labels = {"loft.sh/project": key.name}
        await cluster.api.apply(
            NAMESPACE, {"metadata": {"name": namespace, "labels": labels}}, manager="vcluster-platform"
        )
    instances = await cluster.api.list(INSTANCE, namespace=namespace)
    claims = await cluster.api.list(NODE_CLAIM, namespace=namespace)
    limits = dict(project_limits(project))
    used = {quota: str(count_used(quota, instances=instances, claims=claims)) for quota in limits}
    await cluster.api.write_status(PROJECT, project, {"quotas": {"project": {"limit": limits, "used": used}}})
    return None


def _project_key(found: Json) -> Iterable[Key]:
    return (Key(None, project_of(found["metadata"]["namespace"])),)
