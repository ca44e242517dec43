"""The Applications that a tenant cluster's vcluster.yaml names: makes the ArgoCDApplication objects, removes those that
are named no longer, and sums up how they do."""

from __future__ import annotations

import hashlib
import re

from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition, find_condition
from provisioner.embedded.controllers.kinds import APPLICATION, INSTANCE_LABEL, SECRET
from provisioner.embedded.controllers.loop import Cluster
from provisioner.embedded.controllers.platform.config import Application, TenantConfig

CONNECTOR_LABEL = "loft.sh/connector-type"
_MANAGER = "vcluster-platform"


async def ensure_applications(
    cluster: Cluster, instance: Json, config: TenantConfig, *, platform_namespace: str
) -> Condition:
    """Make the objects so and return the condition ArgoCDIntegrationSynced."""
    name, namespace = instance["metadata"]["name"], instance["metadata"]["namespace"]
    present = {entry["metadata"]["name"]: entry for entry in await cluster.api.list(APPLICATION, namespace=namespace)}
    wanted = [_manifest(application, name, namespace) for application in config.deploy.argo_cd.applications]
    connector = config.integrations.argo_cd.connector
    if wanted and not await _is_connector(cluster, connector, platform_namespace):
        message = f"connector not found in namespace {platform_namespace}: {connector}"
        return Condition("ArgoCDIntegrationSynced", False, "InvalidConnector", message, "Error")
    problems: list[str] = []
    for manifest in wanted:
        known = present.get(manifest["metadata"]["name"])
        if known is not None and (known["metadata"].get("labels") or {}).get(INSTANCE_LABEL) != name:
            problems.append(f"application name belongs to another tenant cluster: {manifest['metadata']['name']}")
            continue
        stored = await cluster.api.apply(APPLICATION, manifest, manager=_MANAGER)
        synced = find_condition(stored, "Synced")
        if synced is not None and synced["status"] == "False" and synced.get("severity") == "Error":
            problems.append(f"{manifest['metadata']['name']}: {synced['reason']}: {synced['message']}")
    names = {manifest["metadata"]["name"] for manifest in wanted}
    for known in present.values():
        if (known["metadata"].get("labels") or {}).get(INSTANCE_LABEL) == name and known["metadata"][
            "name"
        ] not in names:
            await cluster.api.delete(APPLICATION, known["metadata"]["name"], namespace=namespace)
    if problems:
        return Condition("ArgoCDIntegrationSynced", False, "ArgoCDApplicationFailed", "; ".join(problems), "Error")
    return Condition("ArgoCDIntegrationSynced", True)


async def _is_connector(cluster: Cluster, name: str, namespace: str) -> bool:
    secret = await cluster.api.get(SECRET, name, namespace=namespace)
    return secret is not None and CONNECTOR_LABEL in (secret["metadata"].get("labels") or {})


def _manifest(application: Application, instance: str, namespace: str) -> Json:
    name = application.name or _generated_name(application.display_name, instance)
    destination = {"virtualCluster": {"name": instance, "target": application.target or "vCluster"}}
    spec: Json = {"displayName": application.display_name or name, "destination": destination}
    if application.template is not None:
        spec |= {"templateRef": {"name": application.template.name}, "parameters": application.template.parameters}
    else:
        spec["template"] = {"spec": application.inline}
    metadata = {"name": name, "namespace": namespace, "labels": {INSTANCE_LABEL: instance}}
    return {"metadata": metadata, "spec": spec}


def _generated_name(display_name: str, instance: str) -> str:
    word = re.sub(r"[^a-z0-9]+", "-", display_name.lower()).strip("-")[:20]
    digest = hashlib.sha256(f"{instance}/{display_name}".encode()).hexdigest()[:5]
    return f"{instance}-{word}-{digest}"
