"""The program of a tier's stack: one tier, published to the control plane cluster of one region."""

from __future__ import annotations

from pathlib import Path

import pulumi

from provisioner.domain.errors import RejectedError
from provisioner.preview.fleet import MAX_BYTES, read_fleet
from provisioner.preview.sides import Fleet
from provisioner.rendering.pack import compile_pack
from stacks.config import TierConfig
from stacks.objects import kubernetes_provider
from stacks.outputs import PlatformOutputs, read_platform
from stacks.published_tier import PublishedTier, PublishedTierArgs
from stacks.versions import Pins, Versions, check_versions, digests, pins_of

MOST_NAMED = 1000
"""Endpoints that the output `pins` names for each version; it counts all of them."""


async def run(config: TierConfig, *, published: Versions) -> None:
    """Register everything of the tier and export `tier`, `version`, `versions` and `pins`.

    `published` is what the last update said. RejectedError before anything is registered: an edited or pinned version,
    a platform that is not up.
    """
    offer = config.offer
    tier = offer.catalog.tiers[config.tier]
    objects = compile_pack(offer.catalog, offer.site, overlay=offer.overlay).tier_objects(tier.name)
    pins = pins_of(_load_fleet(config.fleet), tier.name) if config.fleet else None
    wanted = digests(objects)
    check_versions(tier.name, published=published, wanted=wanted, pins=pins)
    platform = await read_platform(config.platform)
    _check_platform(config, platform)
    provider = kubernetes_provider(config.control_plane, platform.kubeconfig)
    made = PublishedTier(tier.name, PublishedTierArgs(manifests=objects, provider=provider))
    _say(tier.name, wanted, pins)
    pulumi.export("tier", tier.name)
    pulumi.export("version", tier.version)
    pulumi.export("controlPlane", config.control_plane)
    # Not before the template is there: what was never published may still be edited.
    pulumi.export("versions", made.published.apply(lambda _: wanted))
    if pins is not None:
        pinned = {version: {"count": len(ids), "endpoints": list(ids[:MOST_NAMED])} for version, ids in pins.items()}
        pulumi.export("pins", pinned)


def _check_platform(config: TierConfig, platform: PlatformOutputs) -> None:
    """Refuse a platform that was made with another site, or is not up where the tier goes."""
    publishing, connector = f"publishing tier `{config.tier}`", config.offer.site.connector
    if platform.connector != connector:
        raise RejectedError(
            f"{publishing}: the site names connector `{connector}`, the platform's stack made: `{platform.connector}`",
            reason="InvalidConnector",
            hint="bring the platform's stack up with the same site first",
        )
    if config.control_plane not in platform.control_planes:
        raise RejectedError(
            f"{publishing}: the platform's stack `{config.platform}` is not up on: `{config.control_plane}`",
            reason="PlatformIncomplete",
            hint=f"run `pulumi up --stack {config.platform.rpartition('/')[2]}` with the same site first; it is up on: "
            f"{', '.join(sorted(platform.control_planes)) or 'none'}",
        )


def _say(tier: str, versions: Versions, pins: Pins | None) -> None:
    for version in versions:
        if pins is None:
            fact = "nobody says which endpoints pin it; name `tenantry:fleet`"
        else:
            fact = f"pinned by {len(pins.get(version, ()))} endpoints"
        pulumi.log.info(f"tier {tier} {version}: {fact}")


def _load_fleet(path: Path) -> Fleet:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RejectedError(
            f"reading `tenantry:fleet`: {(error.strerror or 'unreadable').lower()}: {path}",
            hint="write it with `tenantry endpoint export`",
        ) from error
    return read_fleet(data, file=path.name)
