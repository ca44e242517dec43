"""What a laptop's control plane cluster holds before anything is published: what the platform stack makes elsewhere.

Applied at every start of the plane, so that a half-made state is finished; to another cluster it is people who apply
it, or a platform stack.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from provisioner.catalog.site import Site
from provisioner.domain.errors import RetryableError
from provisioner.domain.tenant import POOL_TENANT
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.kinds import NAMESPACE

logger = logging.getLogger(__name__)

_LOCK_SECONDS = 2.0
_MANAGER = "tenantry-embedded"
_GATEWAY_CONTROLLER = "tenantry.io/embedded-gateway"
_REPLICAS = "tenantry-replicas"
_CLIENT_CA = "tenantry-client-ca"


async def seed_cluster(api: Api, site: Site) -> None:
    """The namespace, the Argo CD connector, the gateway class, the public Gateway with our Service, the issuer."""
    for manifest in seed_manifests(site):
        kind = await api.kind_of(manifest["apiVersion"], manifest["kind"])
        await api.apply(kind, manifest, manager=_MANAGER)


async def ensure_platform_namespace(api: Api, site: Site) -> None:
    """What the Platform's own installation makes, wherever the Platform is played."""
    await api.apply(NAMESPACE, {"metadata": {"name": site.platform_namespace}}, manager=_MANAGER)


async def ensure_repository(path: Path) -> None:
    """The bare delivery repository, whole, packed where it holds very many loose objects, and without locks that a
    killed git left in it."""
    await _remove_left_locks(path)
    await _git(path, "init", "--quiet", "--bare", "--initial-branch=main", str(path))
    await _git(path, f"--git-dir={path}", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet")


async def _git(repository: Path, *arguments: str) -> None:
    environment = {"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    process = await asyncio.create_subprocess_exec(shutil.which("git") or "git", *arguments, env=environment)
    if await process.wait() != 0:
        hint = "is git installed, is there disk space?"
        raise RetryableError(f"making the delivery repository: {repository}", hint=hint)


async def _remove_left_locks(repository: Path) -> None:
    """Git holds a lock for milliseconds, and refuses a ref for ever whose lock nobody took away."""
    before = _locks(repository)
    if before:
        await asyncio.sleep(_LOCK_SECONDS)
    for path, _ in before & _locks(repository):
        logger.warning("removing a lock that a killed git left behind: %s", path)
        path.unlink(missing_ok=True)


def _locks(repository: Path) -> set[tuple[Path, int]]:
    found = set()
    for path in repository.rglob("*.lock"):
        with suppress(FileNotFoundError):  # it was let go in between
            found.add((path, path.stat().st_ino))
    return found


def seed_manifests(site: Site) -> list[Json]:
    """The objects of `seed_cluster`."""
    gateway = site.gateway
    listener = {
        "name": site.public.scheme,
        "port": site.public.port or 80,
        "protocol": site.public.scheme.upper(),
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    }
    return [
        _object("v1", "Namespace", gateway.namespace),
        _object(
            "v1", "Secret", site.connector, site.platform_namespace,
            labels={"loft.sh/connector-type": "argocd"}, type="Opaque",
            stringData={"server": "https://argocd.example.com", "namespace": "argocd"},
        ),
        _object(
            "gateway.networking.k8s.io/v1", "GatewayClass", gateway.class_name,
            spec={"controllerName": _GATEWAY_CONTROLLER},
        ),
        _object(
            "gateway.networking.k8s.io/v1", "Gateway", gateway.name, gateway.namespace,
            spec={
                "gatewayClassName": gateway.class_name,
                "listeners": [listener, _replicas_listener(site)],
                "tls": {"frontend": {"default": {}, "perPort": [_client_check(site)]}},
            },
        ),
        _object("v1", "ConfigMap", _CLIENT_CA, gateway.namespace, data={"ca.crt": gateway.client_ca}),
        _object(
            "cert-manager.io/v1", "Certificate", _REPLICAS, gateway.namespace,
            spec={
                "secretName": _REPLICAS,
                "dnsNames": [f"*.{POOL_TENANT}.{site.tenant_domain}"],
                "issuerRef": {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": gateway.issuer},
            },
        ),
        _object(
            "v1", "Service", "tenantry-gateway", gateway.namespace,
            spec={"ports": [{"name": "http", "port": 8080, "targetPort": 8080}]},
        ),
        _object("cert-manager.io/v1", "ClusterIssuer", gateway.issuer, spec={"ca": {"secretName": "server-ca"}}),
    ]  # fmt: skip


def _replicas_listener(site: Site) -> Json:
    """Where replicas on lent nodes are reached."""
    return {
        "name": "replicas",
        "hostname": f"*.{POOL_TENANT}.{site.tenant_domain}",
        "port": site.gateway.lent_port,
        "protocol": "HTTPS",
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": _REPLICAS}]},
        "allowedRoutes": {
            "namespaces": {"from": "Selector", "selector": {"matchLabels": {"tenantry.io/policies": "shared-nodes"}}}
        },
    }


def _client_check(site: Site) -> Json:
    """Nobody but holders of our client certificate comes in there."""
    authorities = [{"group": "", "kind": "ConfigMap", "name": _CLIENT_CA}]
    return {"port": site.gateway.lent_port, "tls": {"validation": {"caCertificateRefs": authorities}}}


def _object(
    api_version: str, kind: str, name: str, namespace: str | None = None, *, labels: dict[str, str] | None = None,
    **content: object,
) -> Json:  # fmt: skip
    metadata: Json = {"name": name, "labels": {"app.kubernetes.io/managed-by": "tenantry", **(labels or {})}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
