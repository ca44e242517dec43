"""What a tier needs of Kubernetes, of vCluster Platform and of its licence. Pure.

Sources: the vCluster documentation and configuration schema (Platform 4.12, vCluster 0.36 and 0.37), Kubernetes' own
feature history.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.site import Site
from provisioner.catalog.tier import Isolation, NodeMode, Scheduling, Sequencing, Tier
from provisioner.domain.finding import Finding

OLDEST_KUBERNETES = (1, 31)
NEWEST_KUBERNETES = (1, 37)
"""The versions whose schemas everything that is rendered is checked against."""
DRA_KUBERNETES = (1, 34)
"""`resource.k8s.io/v1` is served from here on."""
PROFILE_PLATFORM = (4, 11)
"""Node profiles came with Platform 4.11."""
STACK_PLATFORM = (4, 12)
"""Stacks came with Platform 4.12."""
VNODE_KUBERNETES = (1, 36)
"""The newest Kubernetes that vNode is listed for; vendor's compatibility table, not verified offline."""


def version_of(text: str) -> tuple[int, int]:
    """Major and minor of a version such as `1.34`."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def check_versions(tier: Tier, site: Site) -> Iterator[Finding]:
    """Findings about versions that are too old or too new for what the tier is made of."""
    kubernetes, platform = version_of(site.kubernetes_version), version_of(site.platform_version)
    if not OLDEST_KUBERNETES <= kubernetes <= NEWEST_KUBERNETES:
        message = f"reading Kubernetes version: not supported: `{site.kubernetes_version}`"
        hint = f"supported: {_text(OLDEST_KUBERNETES)} to {_text(NEWEST_KUBERNETES)}"
        yield Finding(reason="KubernetesNotSupported", message=message, field="kubernetesVersion", hint=hint)
        return
    if tier.scheduling is Scheduling.DRA and kubernetes < DRA_KUBERNETES:
        yield _kubernetes_too_old(tier, site, "device claims (DRA, resource.k8s.io/v1)", DRA_KUBERNETES)
    if tier.isolation is Isolation.VNODE and kubernetes > VNODE_KUBERNETES:
        message = (
            f"reading Kubernetes version: vNode, on which tier `{tier.name}` stands, is not listed for "
            f"`{site.kubernetes_version}`"
        )
        hint = f"stay at {_text(VNODE_KUBERNETES)} until the vendor lists a newer one"
        yield Finding(reason="VnodeNotCompatible", message=message, field="kubernetesVersion", hint=hint)
    if tier.node_mode is NodeMode.PRIVATE and platform < PROFILE_PLATFORM:
        yield _platform_too_old(tier, site, "node profiles", PROFILE_PLATFORM)
    if tier.sequencing is Sequencing.STACK and platform < STACK_PLATFORM:
        yield _platform_too_old(tier, site, "Stacks", STACK_PLATFORM)


def needed_features(tier: Tier, site: Site, *, provider: str) -> tuple[str, ...]:
    """The licensed features of vCluster Platform that a tier uses with nodes of a provider, by the Platform's own
    names, sorted."""
    plane = getattr(tier.control_plane, site.profile)
    wanted = {"argo-integration": True, "template-versioning": True, "project-quotas": bool(tier.quota)}
    if tier.node_mode is NodeMode.PRIVATE:
        kind = next(offer.kind for offer in site.providers if offer.name == provider)
        wanted |= {
            "vcp-distro-private-nodes": True,
            "node-profiles": True,
            "private-nodes-auto-nodes": True,
            f"auto-nodes-{kind.lower()}": True,
        }
    else:
        wanted["dra-sync"] = tier.scheduling is Scheduling.DRA
    wanted |= {
        "ha-mode": plane.replicas > 1,
        "vcp-distro-embedded-etcd": plane.backing_store == "embedded-etcd",
        "vcp-distro-external-database": plane.backing_store == "external-database",
        "scheduled-snapshots": plane.backups is not None,
        "vnode-runtime": tier.isolation is Isolation.VNODE,
    }
    return tuple(sorted(name for name, is_used in wanted.items() if is_used))


def _kubernetes_too_old(tier: Tier, site: Site, what: str, least: tuple[int, int]) -> Finding:
    message = f"reading Kubernetes version: tier `{tier.name}` needs {what}, found `{site.kubernetes_version}`"
    hint = f"use {_text(least)} or newer, or another tier"
    return Finding(reason="KubernetesTooOld", message=message, field="kubernetesVersion", hint=hint)


def _platform_too_old(tier: Tier, site: Site, what: str, least: tuple[int, int]) -> Finding:
    message = f"reading Platform version: tier `{tier.name}` needs {what}, found `{site.platform_version}`"
    hint = f"use Platform {_text(least)} or newer, or another tier"
    return Finding(reason="PlatformTooOld", message=message, field="platformVersion", hint=hint)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
