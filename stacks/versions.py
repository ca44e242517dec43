"""A published version is never edited and never goes while an endpoint pins it: what a tier's program compares before
it registers anything. Pure.

`published` is what the stack's last update said it published, `wanted` what would be published now: version -> object
-> digest. `pins` is version -> endpoints, or None where nobody says what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provisioner.domain.errors import RejectedError
from provisioner.preview.sides import Fleet
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.digest import digest_tree
from provisioner.rendering.versions import version_contents

Versions = Mapping[str, Mapping[str, str]]
Pins = Mapping[str, tuple[str, ...]]


def digests(objects: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The digest of everything that each version of a tier says, by version and object."""
    return {
        version: {name: digest_tree({name: canonical_yaml(content).encode()}) for name, content in contents.items()}
        for version, contents in version_contents(objects).items()
    }


def pins_of(fleet: Fleet, tier: str) -> dict[str, tuple[str, ...]]:
    """The endpoints of a tier by the version that they pin."""
    found: dict[str, list[str]] = {}
    for endpoint in fleet.endpoints:
        if endpoint.request.get("tier") == tier:
            found.setdefault(endpoint.template_version, []).append(str(endpoint.id))
    return {version: tuple(sorted(found[version])) for version in sorted(found)}


def check_versions(tier: str, *, published: Versions, wanted: Versions, pins: Pins | None) -> None:
    """Refuse a version that would be edited, and one that would go although an endpoint may pin it.

    Raises RejectedError `VersionPublished`, `VersionPinned` or `VersionMissing`.
    """
    for version, contents in published.items():
        if version not in wanted:
            _refuse_removal(tier, version, pins)
            continue
        for name, digest in contents.items():
            if wanted[version].get(name) != digest:
                raise RejectedError(
                    f"publishing tier `{tier}`: version {version} was published with another `{name}`",
                    reason="VersionPublished",
                    hint=f"keep what was published with `tenantry tier freeze {tier}` (on the revision that published "
                    f"it), then raise `version` in templates/{tier}/tier.yaml",
                )
    for version, endpoints in (pins or {}).items():
        if version not in wanted:
            raise _pinned(tier, version, endpoints)


def _refuse_removal(tier: str, version: str, pins: Pins | None) -> None:
    if pins is None:
        raise RejectedError(
            f"publishing tier `{tier}`: nobody says whether endpoints pin the published version that is not there any "
            f"more: {version}",
            reason="VersionMissing",
            hint=f"bring templates/{tier}/versions/{version}.yaml back, or name in `tenantry:fleet` a fleet.json that "
            "shows that no endpoint pins it",
        )
    if version in pins:
        raise _pinned(tier, version, pins[version])


def _pinned(tier: str, version: str, endpoints: tuple[str, ...]) -> RejectedError:
    named = ", ".join(endpoints[:5]) + (f" and {len(endpoints) - 5} more" if len(endpoints) > 5 else "")
    return RejectedError(
        f"publishing tier `{tier}`: version {version} would not be there any more, and endpoints pin it: {named}",
        reason="VersionPinned",
        hint=f"bring templates/{tier}/versions/{version}.yaml back, or update these endpoints first",
    )
