"""Versions of a VirtualClusterTemplate: what was published earlier stays, letter by letter.

A tier's folder may keep the versions of earlier releases as `versions/<x.y.z>.yaml`, each an entry of `spec.versions`
as it was published. Called by publishing. Pure but for reading those files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provisioner.catalog.document import read_document
from provisioner.catalog.pack import PackFiles
from provisioner.domain.errors import RejectedError

FOLDER = "versions"


def frozen_versions(files: PackFiles, tier: str) -> tuple[Mapping[str, Any], ...]:
    """The entries in the tier's folder. Raises RejectedError for a file that is no such entry or is named otherwise."""
    found = []
    for name in files.listed(f"templates/{tier}/{FOLDER}", "*.yaml"):
        path = files.find(name)
        if path is None:
            continue
        entry = read_document(path, root=path.parent).value
        if not isinstance(entry, Mapping) or entry.get("version") != path.stem or "template" not in entry:
            raise RejectedError(
                f"reading version: no template of version `{path.stem}` in file: {name}",
                reason="InvalidVersion",
                hint="keep the entry of `spec.versions` as it was published, named by its version",
            )
        found.append(entry)
    return tuple(found)


def with_versions(template: Mapping[str, Any], frozen: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The template with earlier versions before its own, oldest first.

    Raises RejectedError (`VersionPublished`) when one of them has the version of another content.
    """
    by_version = {entry["version"]: entry for entry in frozen}
    for entry in template["spec"]["versions"]:
        if by_version.setdefault(entry["version"], entry) != entry:
            raise RejectedError(
                f"rendering template `{template['metadata']['name']}`: it differs from the published version: "
                f"{entry['version']}",
                reason="VersionPublished",
                hint="raise `version` in the tier's tier.yaml; a published version is never edited",
            )
    ordered = sorted(by_version.values(), key=lambda entry: tuple(map(int, entry["version"].split("."))))
    return {**template, "spec": {**template["spec"], "versions": ordered}}
