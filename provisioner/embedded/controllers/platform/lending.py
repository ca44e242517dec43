"""What a tenant cluster without nodes of its own is lent, as vCluster's sync lends it: nodes of the control plane
cluster, and Gateways that its vcluster.yaml maps.

A lent Gateway is served for the tenant cluster like one of its own: its listeners for mutual TLS alone, with copies of
the certificates and CAs that they name. Called by the tenant cluster's controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import CONFIG_MAP, GATEWAY
from provisioner.embedded.controllers.kinds import NAMESPACE, NODE, SECRET
from provisioner.embedded.controllers.loop import Cluster
from provisioner.embedded.controllers.platform.config import TenantConfig
from provisioner.platform.interface import Kind

_MANAGER = "vcluster-sync"


async def lend(cluster: Cluster, tenant: Api, config: TenantConfig, *, now: datetime) -> None:
    """Make what is lent so; nothing for a tenant cluster with nodes of its own."""
    if config.private_nodes.enabled:
        return
    for node in await cluster.api.list(NODE):
        await _lend_node(tenant, node, now)
    gateways = (config.sync.get("fromHost") or {}).get("gateways") or {}
    for source, target in ((gateways.get("mappings") or {}).get("byName") or {}).items():
        namespace, _, name = source.partition("/")
        found = await cluster.api.get(GATEWAY, name, namespace=namespace)
        if found is not None:
            await _lend_gateway(cluster.api, tenant, found, target.partition("/"), _policy(gateways, source))


async def _lend_node(tenant: Api, node: Json, now: datetime) -> None:
    metadata, status = node["metadata"], node.get("status") or {}
    if await tenant.get(NODE, metadata["name"]) is not None:
        return
    made = await tenant.apply(NODE, {"metadata": _metadata(node, metadata["name"])}, manager=_MANAGER)
    ready = Condition("Ready", met=True, reason="Lent", message="a node of the control plane cluster")
    told = {key: status[key] for key in ("capacity", "allocatable") if key in status}
    await write_conditions(tenant, NODE, made, (ready,), now=now, **told)


async def _lend_gateway(source: Api, tenant: Api, gateway: Json, target: tuple[str, str, str], policy: Json) -> None:
    namespace, _, name = target
    own = gateway["metadata"]["namespace"]
    listeners = [{**one, "allowedRoutes": {"namespaces": policy}} for one in _mutual(gateway)]
    if not listeners:
        return
    validation = _validation(gateway)
    await tenant.apply(NAMESPACE, {"metadata": {"name": namespace}}, manager=_MANAGER)
    for kind, names in ((SECRET, _certificates(listeners)), (CONFIG_MAP, _authorities(validation))):
        for wanted in names:
            await _copy(source, tenant, kind, wanted, own, namespace)
    spec = {
        "gatewayClassName": gateway["spec"]["gatewayClassName"],
        "listeners": listeners,
        "tls": {"frontend": {"default": {"validation": validation}}},
    }
    metadata = {**_metadata(gateway, name), "namespace": namespace}
    await tenant.apply(GATEWAY, {"metadata": metadata, "spec": spec}, manager=_MANAGER)


async def _copy(source: Api, tenant: Api, kind: Kind, name: str, own: str, namespace: str) -> None:
    found = await source.get(kind, name, namespace=own)
    if found is not None:
        content: Json = {key: found[key] for key in ("type", "data") if key in found}
        metadata = {**_metadata(found, name), "namespace": namespace}
        await tenant.apply(kind, {"metadata": metadata, **content}, manager=_MANAGER)


def _mutual(gateway: Json) -> Iterator[Json]:
    """The listeners that ask for a client certificate."""
    ports = {entry["port"] for entry in _per_port(gateway)}
    return (one for one in gateway["spec"].get("listeners") or () if one["port"] in ports)


def _validation(gateway: Json) -> Json:
    return next((entry["tls"]["validation"] for entry in _per_port(gateway)), {})


def _per_port(gateway: Json) -> Iterable[Json]:
    frontend = (gateway["spec"].get("tls") or {}).get("frontend") or {}
    return tuple(entry for entry in frontend.get("perPort") or () if (entry.get("tls") or {}).get("validation"))


def _policy(gateways: Json, source: str) -> Json:
    """From which namespaces of the tenant cluster the Gateway takes routes."""
    overrides: Iterable[Json] = (gateways.get("allowedRoutes") or {}).get("overrides") or ()
    named = (one for one in overrides if f"{one.get('hostNamespace')}/{one.get('name')}" == source)
    found: dict[str, Any] = next((one["virtualNamespacePolicy"] for one in named), {"from": "All"})
    return found


def _certificates(listeners: Iterable[Json]) -> list[str]:
    return [entry["name"] for one in listeners for entry in (one.get("tls") or {}).get("certificateRefs") or ()]


def _authorities(validation: Json) -> list[str]:
    return [entry["name"] for entry in validation.get("caCertificateRefs") or ()]


def _metadata(found: Json, name: str) -> Json:
    return {"name": name, "labels": dict(found["metadata"].get("labels") or {})}
