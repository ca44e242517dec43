"""The platform's program: everything that an installation needs once, on every control plane cluster of the site."""

from __future__ import annotations

import pulumi

from provisioner.rendering.pack import compile_pack
from stacks.config import PlatformConfig
from stacks.objects import kubernetes_provider, register


def run(config: PlatformConfig) -> None:
    """Register the platform's objects and export what tiers' stacks take: `connector`, `namespace`, `kubeconfig`."""
    offer = config.offer
    pack = compile_pack(offer.catalog, offer.site, overlay=offer.overlay)
    for plane in offer.site.control_planes:
        parent = pulumi.ComponentResource("tenantry:platform:Platform", plane)
        objects = []
        for manifest in pack.platform_objects():
            if manifest["kind"] == "Secret":
                held = {k: v for k, v in manifest["stringData"].items() if v != "REPLACE_ME"}
                key = next(k for k, v in manifest["stringData"].items() if v == "REPLACE_ME")
                manifest = {**manifest, "stringData": {**held, key: config.connector_secret}}
            objects.append(manifest)
        register(objects, parent=parent, provider=kubernetes_provider(plane, config.kubeconfig), within=plane)
    pulumi.export("connector", offer.site.connector)
    pulumi.export("namespace", offer.site.gateway.namespace)
    if config.kubeconfig is not None:
        pulumi.export("kubeconfig", config.kubeconfig)
