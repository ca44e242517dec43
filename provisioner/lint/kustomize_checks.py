"""What is wrong with what a kustomization builds, told from its parts: objects twice, containers by mistake, files left
out. Each finding is a place in the kustomization or a file, and words about it. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import nearest_name
from provisioner.lint.document import Document
from provisioner.lint.merging import unfit
from provisioner.lint.values import items, mapping, text
from provisioner.lint.world import POD_TEMPLATES, Object

_DELIVERERS = frozenset({"Application", "ApplicationSet", "AppProject", "Kustomization", "HelmRelease", "Bundle"})
"""Kinds that tell somebody else to deliver the folder they may stand in."""
Identity = tuple[str, str, str | None, str]
"""Group, kind, namespace and name."""
_RENAMING = ("namePrefix", "nameSuffix", "transformers", "configurations", "replacements")


def renames(document: Document) -> bool:
    """Whether a kustomization may give objects other names than those of their files."""
    return isinstance(document.value, Mapping) and any(document.value.get(name) for name in _RENAMING)


def identities(found: Iterable[Object]) -> set[Identity]:
    """What tells objects apart: group, kind, namespace and name."""
    return {(one.group, one.kind, one.namespace, one.name) for one in found if one.name}


def repeated(seen: set[Identity], added: Iterable[Object]) -> Iterator[Object]:
    """Objects of a resource that were seen before it; all of them are seen from now on."""
    own = identities(added := tuple(added))
    twice = own & seen
    yield from (one for one in added if (one.group, one.kind, one.namespace, one.name) in twice)
    seen |= own


def bare_containers(found: Object, patch: Any) -> Iterator[str]:
    """Containers that a strategic merge patch adds to an object by naming none of its own, and that have no image."""
    for place in POD_TEMPLATES.get(found.kind, ()):
        for part in ("containers", "initContainers"):
            known = {text(item, "name") for _, item in items(found.value, *place, "spec", part)}
            for _, item in items(patch, *place, "spec", part) if known else ():
                name = text(item, "name")
                is_given = not isinstance(item, Mapping) or "image" in item or "$patch" in item
                if name and name not in known and not is_given:
                    yield name


def container_names(found: Object) -> list[str]:
    """The names of the containers of an object."""
    return [
        name
        for place in POD_TEMPLATES.get(found.kind, ())
        for _, item in items(found.value, *place, "spec", "containers")
        if (name := text(item, "name"))
    ]


def left_out(
    documents: Mapping[str, Document], found: Mapping[str, Sequence[Object]], used: frozenset[str]
) -> Iterator[tuple[Object, str]]:
    """The first object of every file that stands beside a kustomization and is named by none, and that kustomization's
    file. A file that the kustomization writes of in any way, a comment included, was left out on purpose."""
    for name, objects in found.items():
        document = documents.get(str(PurePosixPath(name).parent))
        if document is None or name in used or not objects or name == document.file:
            continue
        if "toolkit" in (text(document.value, "apiVersion") or "") or not mapping(document.value):
            continue
        written = getattr(document, "text", "")
        is_meant = posixpath.basename(name) in written or any(one.kind in _DELIVERERS for one in objects)
        if not is_meant and any(name in document.value for name in ("resources", "components", "bases")):
            yield objects[0], document.file


def unlisted_message(found: Object, kustomization: str) -> str:
    """What is wrong with a file that was left out."""
    return f"reading {found.title}: `{PurePosixPath(kustomization).name}` beside it does not name the file"


Fault = tuple[FieldPath, str, str]
"""Where something is wrong in a kustomization, what, and what to do."""


def misplaced(path: FieldPath, written: str, named: Document) -> Iterator[Fault]:
    """A Component that is listed as a resource, or the reverse."""
    is_component = text(named.value, "kind") == "Component"
    if is_component != (path[0] == "components"):
        field, kind = ("components", "a Component") if is_component else ("resources", "no Component")
        message = f"reading kustomization: this is {kind}: {shown(written)}"
        yield path, message, f"list it under `{field}`"


def merged_from_nothing(document: Document, before: Iterable[Object]) -> Iterator[Fault]:
    """Generators that change what nothing before them makes."""
    names = {(one.kind, one.name) for one in before}
    for field, kind in (("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")):
        known = sorted(name for made, name in names if made == kind)
        for path, item in items(document.value, field):
            wanted, behavior = text(item, "name"), text(item, "behavior")
            if wanted and behavior in ("merge", "replace") and wanted not in known:
                message = f"generating {kind}: nothing before makes what it shall {behavior}: {shown(wanted)}"
                yield path, message, f"name one of: {', '.join(known)[:200]}" if known else "leave `behavior` out"


def lost_paths(path: FieldPath, chosen: Iterable[Object], patch: Any) -> Iterator[Fault]:
    """Operations of a JSON patch that fit nothing in what they are about."""
    for one in chosen if isinstance(patch, list) else ():
        if (lost := unfit(one.value, patch)) is not None:
            message = f"patching {one.title}: it has nothing at this path: {shown(lost[1])}"
            yield path, message, "correct the path, or `add` what is above it first"


def lost_files(value: Any, folder: str, files: frozenset[str]) -> Iterator[Fault]:
    """Files that generators read and that are not there; those of Secrets may come from elsewhere, but not misspelt."""
    here = [posixpath.relpath(name, folder) for name in files if name.startswith(f"{folder}/")]
    for path, written in _generator_files(value):
        place = posixpath.normpath(posixpath.join(folder, written))
        if place in files or place.startswith("..") or posixpath.basename(written).startswith("."):
            continue
        near = nearest_name(written, here)
        is_inside = any(name.startswith(f"{posixpath.dirname(place)}/") for name in files)
        if near or (path[0] == "configMapGenerator" and is_inside):
            message = f"generating from a file: there is none such: {shown(written)}"
            yield path, message, f"did you mean `{near}`?" if near else "correct the path, or add the file"


def _generator_files(value: Any) -> Iterator[tuple[FieldPath, str]]:
    for field in ("configMapGenerator", "secretGenerator"):
        for path, item in items(value, field):
            for part in ("files", "envs"):
                for place, written in items(item, part):
                    if isinstance(written, str) and written:
                        name = written.rpartition("=")[2] if part == "files" else written
                        yield (*path, *place), name
            if single := text(item, "env"):
                yield (*path, "env"), single


_MOVING = re.compile(r"[?&](?:ref|version)=(?:main|master|HEAD|develop|dev|latest)(?:&|$)")
_PINNED = re.compile(r"[?&](?:ref|version)=")


def unpinned(path: FieldPath, written: str) -> Iterator[Fault]:
    """A base from elsewhere that changes when somebody pushes to it."""
    is_git = not written.endswith((".yaml", ".yml", ".json"))
    if _MOVING.search(written) or (is_git and not _PINNED.search(written)):
        message = f"reading kustomization: what it builds upon moves: {shown(written)}"
        yield path, message, "name a tag or a commit: `?ref=v1.2.3`"
