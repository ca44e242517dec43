"""A stack's config as frozen types, read once at the start of a program and checked against Site and catalog.

Called by `entry`. A secret is an Output that Pulumi keeps secret; nothing here looks into one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pulumi

from provisioner.admission import regions_of
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.checks import check_site
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.site import Site
from provisioner.catalog.tier import NodeMode
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.rendering.platform import SECRETS
from stacks.keys import KEYS, PLATFORM, PROGRAMS, PROJECT, config_key


@dataclass(frozen=True, slots=True, kw_only=True)
class StackName:
    """Which stack runs, and the folder of its Pulumi.yaml."""

    organization: str
    project: str
    stack: str
    root: Path

    @property
    def full(self) -> str:
        """The name by which a StackReference finds this stack."""
        return f"{self.organization}/{self.project}/{self.stack}"

    @property
    def file(self) -> str:
        """The file of its config."""
        return f"Pulumi.{self.stack}.yaml"

    def sibling(self, name: str) -> str:
        """The full name of another stack: a bare name is one of the same organization and project."""
        return name if "/" in name else f"{self.organization}/{self.project}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The site and the catalog that everything is rendered from, and a provider's own folder laid over the pack."""

    site: Site
    catalog: Catalog
    overlay: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformConfig:
    """What the platform's program needs: the offer, how the control plane clusters are reached, and the installation's
    secrets by the names that rendering has for them."""

    offer: Offer
    kubeconfig: pulumi.Output[str] | None
    secrets: Mapping[str, pulumi.Output[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """What a tier's program needs. `control_plane` is the region's; `platform` the full name of the platform's stack;
    `fleet` the file that says which endpoints pin which version."""

    offer: Offer
    tier: str
    control_plane: str
    platform: str
    fleet: Path | None


def read_config(
    values: Mapping[str, str], name: StackName, *, secret_keys: Collection[str]
) -> PlatformConfig | TierConfig:
    """The config of the program that the stack names.

    `values` and `secret_keys` are the project's keys with their namespace, as Pulumi gives them. Raises RejectedError
    with every key that is missing, unknown or a secret in clear, or with what is wrong in the site.
    """
    own = {key.partition(":")[2]: value for key, value in values.items() if key.startswith(f"{PROJECT}:")}
    program = own.get("program")
    if program is None or program not in PROGRAMS:
        given = "it is not there" if program is None else f"unknown: `{program}`"
        raise RejectedError(
            f"reading `{PROJECT}:program` in {name.file}: {given}",
            reason="UnknownStack",
            hint=unknown_name_hint(program or "", PROGRAMS) if (name.root / name.file).exists() else _others(name),
        )
    secrets = {key.partition(":")[2] for key in secret_keys}
    findings = [*_missing(own, program), *_unread(own, program), *_in_clear(own, secrets)]
    if findings:
        raise RejectedError(f"reading config: {name.file}", reason="BadConfig", findings=tuple(findings))
    offer = _load_offer(own, name)
    if program == PLATFORM:
        kubeconfig = pulumi.Output.secret(own["kubeconfig"]) if "kubeconfig" in own else None
        texts = {secret: own[config_key(secret)] for secret in SECRETS if config_key(secret) in own}
        held = {secret: pulumi.Output.secret(value) for secret, value in texts.items()}
        return PlatformConfig(offer=offer, kubeconfig=kubeconfig, secrets=held)
    return TierConfig(
        offer=offer,
        tier=own["tier"],
        control_plane=_control_plane(own, name, offer),
        platform=name.sibling(own["platform"]),
        fleet=name.root / own["fleet"] if "fleet" in own else None,
    )


def _others(name: StackName) -> str:
    """What to do about a stack that has no file: it is misspelt, or new."""
    known = {path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in name.root.glob("Pulumi.*.yaml")}
    return f"{unknown_name_hint(name.stack, known)}; for a new stack copy the Pulumi.<stack>.yaml that is most like it"


def _missing(own: Mapping[str, str], program: str) -> list[Finding]:
    wanted = {key for key, row in KEYS.items() if row.is_required and program in row.programs}
    return [
        Finding(
            reason="MissingField",
            field=f"{PROJECT}:{key}",
            message="not there" if key not in own else "empty",
            hint=f"pulumi config set{' --secret' if KEYS[key].is_secret else ''} {key} …",
        )
        for key in sorted(wanted)
        if not own.get(key)
    ]


def _unread(own: Mapping[str, str], program: str) -> list[Finding]:
    read = {key for key, row in KEYS.items() if program in row.programs}
    return [
        Finding(
            reason="UnknownField",
            field=f"{PROJECT}:{key}",
            message=f"program `{program}` reads no such key",
            hint=unknown_name_hint(key, read),
        )
        for key in sorted(own.keys() - read)
    ]


def _in_clear(own: Mapping[str, str], secrets: Collection[str]) -> list[Finding]:
    return [
        Finding(
            reason="SecretInClear",
            field=f"{PROJECT}:{key}",
            message="a secret in clear",
            hint=f"pulumi config set --secret {key} …, and give it a new value: this one is known",
        )
        for key, row in sorted(KEYS.items())
        if row.is_secret and key in own and key not in secrets
    ]


def _load_offer(own: Mapping[str, str], name: StackName) -> Offer:
    path = name.root / own["site"]
    if not path.is_file():
        raise NotFoundError(
            f"reading `{PROJECT}:site` in {name.file}: no such file: {own['site']}",
            hint="name a site.yaml by its path from the folder of Pulumi.yaml; docs/how-to/describe-a-site.md",
        )
    overlay = name.root / own["catalog"] if "catalog" in own else None
    if overlay is not None and not overlay.is_dir():
        raise NotFoundError(f"reading `{PROJECT}:catalog` in {name.file}: no such folder: {own['catalog']}")
    site, catalog = load_site(path), load_catalog(overlay=overlay)
    if findings := check_site(site, catalog):
        raise RejectedError(f"loading the site `{own['site']}`", reason="BadSite", findings=tuple(findings))
    return Offer(site=site, catalog=catalog, overlay=overlay)


def _control_plane(own: Mapping[str, str], name: StackName, offer: Offer) -> str:
    """The control plane cluster of the region. Raises NotFoundError for a tier or region that nobody knows, and
    RejectedError for one where the tier has no nodes."""
    for key, known in (("tier", offer.catalog.tiers), ("region", offer.site.regions)):
        if own[key] not in known:
            raise NotFoundError(
                f"reading `{PROJECT}:{key}` in {name.file}: unknown: `{own[key]}`",
                hint=unknown_name_hint(own[key], known),
            )
    tier, region = offer.catalog.tiers[own["tier"]], own["region"]
    able = regions_of(tier, offer.site)
    if tier.node_mode is NodeMode.PRIVATE and region not in able:
        raise RejectedError(
            f"reading `{PROJECT}:region` in {name.file}: nobody has nodes for tier `{tier.name}` in: `{region}`",
            reason="NoNodeType",
            hint=f"regions that have: {', '.join(able) or 'none'}",
        )
    return offer.site.regions[region].control_plane
