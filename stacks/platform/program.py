"""The platform's program: everything that an installation needs once, on every control plane cluster of the site.

What belongs to vCluster Platform itself is made in the cluster that it runs in.
"""

from __future__ import annotations

import pulumi

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.rendering.pack import compile_pack
from provisioner.rendering.platform import HOME_GROUP, SECRETS
from stacks.config import PlatformConfig
from stacks.keys import PROJECT, config_key
from stacks.objects import kubernetes_provider
from stacks.platform.installation import Installation, InstallationArgs
from stacks.platform.secrets import MARKS, named_secrets


def run(config: PlatformConfig) -> None:
    """Register the installation and export what tiers' stacks take: `connector`, `namespace`, `platformUrl`,
    `controlPlanes`, `kubeconfig`.

    RejectedError before anything is registered: a site without an installation, a secret that it wants and nobody gave.
    """
    offer = config.offer
    site = offer.site
    groups = compile_pack(offer.catalog, site, overlay=offer.overlay).platform_groups(secrets=MARKS)
    wanted = named_secrets(groups)
    if missing := sorted(wanted - config.secrets.keys()):
        raise RejectedError("reading config: the site wants secrets", reason="BadConfig", findings=_findings(missing))
    made = []
    for plane in site.control_planes:
        provider = kubernetes_provider(plane, config.kubeconfig)
        here = {name: group for name, group in groups.items() if name != HOME_GROUP or plane == site.platform_cluster}
        args = InstallationArgs(groups=here, secrets=config.secrets, provider=provider)
        made.append(Installation(plane, args).made)
    # Not before it is there on every cluster: tiers take it as a sign that the platform is up.
    everywhere = pulumi.Output.all(*made)
    pulumi.export("connector", everywhere.apply(lambda _: site.connector))
    pulumi.export("controlPlanes", everywhere.apply(lambda _: list(site.control_planes)))
    pulumi.export("namespace", site.gateway.namespace)
    pulumi.export("platformUrl", site.installation.platform.url if site.installation else None)
    if config.kubeconfig is not None:
        pulumi.export("kubeconfig", config.kubeconfig)


def _findings(missing: list[str]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            reason="MissingField",
            field=f"{PROJECT}:{config_key(name)}",
            message=f"not there: {SECRETS[name]}",
            hint=f"pulumi config set --secret {config_key(name)} …",
        )
        for name in missing
    )
