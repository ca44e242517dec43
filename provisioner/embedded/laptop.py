"""The Site of a laptop: one region, one provider of pretended GPU nodes, everything on loopback.

Written by the plane for the other processes to read; the same type that a production installation writes by hand.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from provisioner.catalog.site import (
    Delivery,
    GatewaySettings,
    NodeProviderOffer,
    NodeTypeOffer,
    PublicAddress,
    Region,
    Site,
)

CONTROL_PLANE = "control-plane"
CONNECTOR = "argocd-main"
GATEWAY_CLASS = "local"
ISSUER = "local"
REGIONS = ("local", "eu-central-1")
"""The second one so that the requests in the documentation run here as they stand."""
RUNTIMES = ("llama-cpp", "vllm")
"""Those whose model servers a laptop has a process for; others would wait for an image for ever."""
METRICS_URL = "http://metrics.localhost:9090"
"""Stands where endpoints that may sleep need one. Nobody asks there: the embedded KEDA reads no metric."""
_GIB = 2**30
_NOTICE = "# Written anew when the embedded control plane starts. To change it, name a copy in TENANTRY_SITE.\n"


def laptop_site(*, repository: Path, client_ca: str, gateway_port: int, public_port: int) -> Site:
    """The Site. `repository` is the bare delivery repository, `client_ca` a PEM, `gateway_port` where tenants' Gateways
    listen, `public_port` where our own gateway does."""
    node = NodeTypeOffer(
        name="gpu",
        gpus=1,
        gpu_memory_bytes=24 * _GIB,
        cpu="16",
        memory="64Gi",
        max_capacity=8,
        cost=1,
        properties={"gpu-model": "pretended"},
    )
    provider = NodeProviderOffer(
        name="laptop",
        kind="terraform",
        spec={"nodeTemplate": {"inline": "# nothing to make: nodes of the embedded control plane are pretended\n"}},
        node_types=(node,),
    )
    return Site(
        name="laptop",
        profile="dev",
        tenant_domain="tenants.localhost",
        public=PublicAddress(scheme="http", hostname="localhost", port=public_port),
        gateway=GatewaySettings(
            class_name=GATEWAY_CLASS,
            tenant_class_name=GATEWAY_CLASS,
            tenant_port=gateway_port,
            lent_port=gateway_port,
            issuer=ISSUER,
            client_ca=client_ca,
        ),
        regions={name: Region(control_plane=CONTROL_PLANE, providers=(provider.name,)) for name in REGIONS},
        providers=(provider,),
        connector=CONNECTOR,
        runtimes=RUNTIMES,
        metrics_url=METRICS_URL,
        delivery=Delivery(url=str(repository), argo_url=str(repository)),
    )


def write_site(site: Site, path: Path) -> None:
    """Write `site.yaml`, whole or not at all."""
    content = site.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(_NOTICE + yaml.safe_dump(content, sort_keys=False))
    temporary.replace(path)
