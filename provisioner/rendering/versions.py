"""Versions of what a tier publishes: what was published earlier stays, letter by letter.

A tier's folder may keep the versions of earlier releases: `versions/<x.y.z>.yaml` is an entry of `spec.versions` of its
VirtualClusterTemplate as it was published, `versions/<x.y.z>/*.yaml` are the templates of Applications and Stacks that
this entry names. Called by publishing, by `tier freeze` and by stacks. Pure but for reading those files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from provisioner.catalog.document import read_document
from provisioner.catalog.pack import PackFiles
from provisioner.domain.enumeration import first_few
from provisioner.domain.errors import RejectedError
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.diff import Difference, differences
from provisioner.rendering.opening import opened_text

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
FOLDER = "versions"
TEMPLATE = "VirtualClusterTemplate"
_NAMED_FIELDS = 5
NAMED_BY_VERSION = frozenset({"ArgoCDApplicationTemplate", "StackTemplate"})
"""Kinds that have no versions of their own and carry the tier's in their name."""


def frozen_files(files: PackFiles, tier: str) -> Iterator[Path]:
    """All files that the tier's folder keeps of earlier versions."""
    for name in files.listed(f"templates/{tier}/{FOLDER}", "*.yaml"):
        below = files.listed(name.removesuffix(".yaml"), "*.yaml")
        yield from filter(None, (files.find(found) for found in (name, *below)))


def frozen_versions(files: PackFiles, tier: str) -> tuple[Mapping[str, Any], ...]:
    """The entries in the tier's folder. Raises RejectedError for a file that is no such entry or is named otherwise."""
    found = []
    for name in files.listed(f"templates/{tier}/{FOLDER}", "*.yaml"):
        stem, entry = name.rpartition("/")[2].removesuffix(".yaml"), _read(files, name)
        is_entry = isinstance(entry, Mapping) and entry.get("version") == stem and "template" in entry
        if not is_entry or not _VERSION.fullmatch(stem):
            raise RejectedError(
                f"reading version: no template of version `{stem}` in file: {name}",
                reason="InvalidVersion",
                hint="keep the entry of `spec.versions` as it was published, named by its version",
            )
        found.append(entry)
    return tuple(found)


def frozen_objects(files: PackFiles, tier: str, version: str) -> tuple[dict[str, Any], ...]:
    """The templates of Applications and Stacks that lie beside a frozen version. Raises RejectedError for a file that
    holds anything else."""
    found = []
    for name in files.listed(f"templates/{tier}/{FOLDER}/{version}", "*.yaml"):
        manifest = _read(files, name)
        if not isinstance(manifest, dict) or version_of(manifest, (version,)) != version:
            raise RejectedError(
                f"reading version: no template of an Application or a Stack of version `{version}` in file: {name}",
                reason="InvalidVersion",
                hint="write the version anew with `tenantry tier freeze`",
            )
        found.append(manifest)
    return tuple(found)


def with_versions(template: Mapping[str, Any], frozen: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The template with earlier versions before its own, oldest first.

    Raises RejectedError (`VersionPublished`) when one of them has the version of another content.
    """
    by_version = {entry["version"]: entry for entry in frozen}
    for entry in template["spec"]["versions"]:
        kept = by_version.setdefault(entry["version"], entry)
        if kept != entry:
            raise version_published(template, entry["version"], differences(kept, entry, opened=opened_text))
    ordered = sorted(by_version.values(), key=lambda entry: tuple(map(int, entry["version"].split("."))))
    return {**template, "spec": {**template["spec"], "versions": ordered}}


def with_frozen(objects: Iterable[Mapping[str, Any]], *, files: PackFiles, tier: str) -> tuple[dict[str, Any], ...]:
    """The objects of a tier, and before its template what its folder keeps of earlier versions.

    Raises RejectedError (`VersionPublished`) where a version would be published again with another content.
    """
    frozen = frozen_versions(files, tier)
    kept = [manifest for entry in frozen for manifest in frozen_objects(files, tier, entry["version"])]
    earlier = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in kept}
    found: list[dict[str, Any]] = []
    for made in objects:
        if made["kind"] == TEMPLATE:
            found += [*earlier.values(), with_versions(made, frozen)]
            continue
        name = made["metadata"]["name"]
        before = earlier.pop((made["kind"], name), made)
        if before != made:
            raise version_published(made, None, differences(before, made, opened=opened_text))
        found.append(dict(made))
    return tuple(found)


def version_of(manifest: Mapping[str, Any], versions: Iterable[str]) -> str | None:
    """Which of the versions an object carries in its name; None for an object that has none."""
    if manifest.get("kind") not in NAMED_BY_VERSION:
        return None
    name = str(manifest["metadata"]["name"])
    return next((version for version in versions if name.endswith(f"-{version.replace('.', '-')}")), None)


def version_contents(objects: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each version of a tier says, by `Kind/name`: its entry of the template, and the specs of what carries it in
    its name."""
    listed = list(objects)
    contents: dict[str, dict[str, Any]] = {}
    for manifest in listed:
        if manifest["kind"] == TEMPLATE:
            for entry in manifest["spec"]["versions"]:
                contents.setdefault(entry["version"], {})[_label(manifest)] = entry
    for manifest in listed:
        if version := version_of(manifest, contents):
            contents[version][_label(manifest)] = manifest["spec"]
    return contents


def version_files(objects: Iterable[Mapping[str, Any]], version: str) -> dict[str, bytes]:
    """The files, below the folder of a tier, that keep one version of it as it is."""
    files: dict[str, bytes] = {}
    for manifest in objects:
        if manifest["kind"] == TEMPLATE:
            entry = next(entry for entry in manifest["spec"]["versions"] if entry["version"] == version)
            files[f"{FOLDER}/{version}.yaml"] = canonical_yaml(entry).encode()
        elif version_of(manifest, (version,)):
            name = f"{manifest['kind'].lower()}.{manifest['metadata']['name']}.yaml"
            files[f"{FOLDER}/{version}/{name}"] = canonical_yaml(manifest).encode()
    return files


def _label(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def _read(files: PackFiles, name: str) -> Any:
    path = files.find(name)
    return read_document(path, root=path.parent).value if path is not None else None


def version_published(manifest: Mapping[str, Any], version: str | None, found: Iterable[Difference]) -> RejectedError:
    """The refusal to publish a version again with another content, naming the fields that differ: no values, which may
    be secret. `version` is None for an object that carries it in its name."""
    what = "what is published under this name" if version is None else f"the published version: {version}"
    fields = [f"`{difference.path}`" for difference in found]
    return RejectedError(
        f"publishing template `{manifest['metadata']['name']}`: it differs from {what}: in "
        f"{first_few(fields, _NAMED_FIELDS)}",
        reason="VersionPublished",
        hint="raise `version` in the tier's tier.yaml; a published version is never edited",
    )
