"""Builds kustomizations well enough to judge the result: bases, components, patches, generators, images, replicas.

What a base leaves open its overlays fill in, so rules look at what is built, with the lines of the files it comes from.
Name prefixes and transformers are left out: they change names alike everywhere. Reading calls it; pure.
"""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.lint.document import Document, Oddity, Part
from provisioner.lint.kustomize_checks import (
    Identity,
    bare_containers,
    container_names,
    identities,
    left_out,
    lost_files,
    lost_paths,
    merged_from_nothing,
    misplaced,
    renames,
    repeated,
    unlisted_message,
    unpinned,
)
from provisioner.lint.kustomize_fields import field_faults, listed
from provisioner.lint.kustomize_names import lost_references
from provisioner.lint.merging import json_patched, merged
from provisioner.lint.values import items, look, mapping, text, texts
from provisioner.lint.world import POD_TEMPLATES, Object

NAMES = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})

_REPLICATED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""The kinds whose replicas kustomize sets; others of the same name stay as they are."""
_CLUSTER_KINDS = frozenset(
    {
        *("Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("PriorityClass", "StorageClass", "RuntimeClass", "IngressClass", "GatewayClass", "DeviceClass"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "APIService"),
        *("MutatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"),
        *("ClusterIssuer", "ClusterTriggerAuthentication", "NodePool", "EC2NodeClass", "ClusterQueue"),
        *("ResourceFlavor", "ClusterPolicy", "Project", "VirtualClusterTemplate", "NodeProvider", "NodeType"),
        *("NodeProfile", "ArgoCDApplicationTemplate", "StackTemplate", "OwnedAccessKey", "SharedSecret", "Team"),
    }
)
_PROGRAMS = ("helmCharts", "generators", "transformers")
"""What other programs make of, or with, the resources."""
_REMOTE = re.compile(r"://|^git@|^github\.com/|\?ref=|\.git(/|$)")


@dataclass(slots=True)
class Kustomizations:
    """All kustomizations below the linted paths; `objects` and `values` are those of a file."""

    documents: Mapping[str, Document]
    """By folder."""
    objects: Callable[[str], Sequence[Object]]
    values: Callable[[str], Sequence[Document]]
    files: frozenset[str]
    oddities: list[Oddity] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    _folders: frozenset[str] = frozenset()
    _partial: set[str] = field(default_factory=set)
    """The folders that build upon what is not here."""
    _renaming: set[str] = field(default_factory=set)
    """The folders whose objects may have other names than those of their files."""

    def __post_init__(self) -> None:
        self._folders = frozenset(str(parent) for name in self.files for parent in PurePosixPath(name).parents)

    def patch_files(self) -> frozenset[str]:
        """Files that are parts of objects, or settings of kustomize itself."""
        found = set()
        for folder, document in self.documents.items():
            for _, written in self._patch_paths(document):
                found.add(_joined(folder, written))
        return frozenset(found)

    def build(self) -> list[Object]:
        """What every kustomization makes that no other one builds upon. Notes what is wrong on the way."""
        for document in self.documents.values():
            for fault in field_faults(document):
                self._note(fault.rule, document, fault.path, fault.message, fix=fault.fix)
        inner = {
            _joined(folder, written)
            for folder, document in self.documents.items()
            for _, written in listed(document.value)
        }
        roots = [folder for folder in self.documents if folder not in inner]
        built = []
        for folder in roots or sorted(self.documents):
            if text(self.documents[folder].value, "kind") != "Component":
                built += [replace(one, kustomization=folder) for one in self._build(folder, (), [])]
        return built

    def _build(self, folder: str, around: tuple[str, ...], given: list[Object]) -> list[Object]:
        document = self.documents[folder]
        if folder in around:
            message = f"reading kustomization: it builds upon itself: {' -> '.join((*around, folder))}"[:400]
            self._note("kustomization-cycle", document, ("resources",), message, fix="remove the path that leads back")
            return given
        generated = list(_generated(document))
        found, seen = [*given, *generated], identities(given)
        foreign: list[tuple[FieldPath, str]] = [
            ((name,), f"`{name}` are not run here") for name in _PROGRAMS if look(document.value, name)
        ]
        is_whole = not look(document.value, "helmCharts") and not look(document.value, "generators")
        for path, written in listed(document.value):
            if _REMOTE.search(written):
                self._note_all("kustomization-remote-unpinned", document, unpinned(path, written))
                foreign.append((path, f"{shown(written)} is not fetched here"))
                is_whole = False
                continue
            place = _joined(folder, written)
            if place in self.documents:
                is_component = path[0] == "components"
                faults = misplaced(path, written, self.documents[place])
                self._note_all("kustomization-kind-misplaced", document, faults)
                inner = self._build(place, (*around, folder), found if is_component else [])
                if not is_component and place not in self._renaming:
                    self._check_repeated(document, path, seen, inner)
                found = inner if is_component else found + inner
                is_whole = is_whole and place not in self._partial
            elif place in self.files:
                self.used.add(place)
                self._check_repeated(document, path, seen, self.objects(place))
                found += self.objects(place)
            elif self._is_inside(place):
                message = f"reading kustomization: no such file, and no folder with a kustomization: {shown(written)}"
                fix = "correct the path, or remove the line"
                self._note("kustomization-missing-resource", document, path, message, fix=fix)
            else:
                foreign.append((path, f"{shown(written)} is outside of what is linted"))
                is_whole = False
        self._note_foreign(document, folder, foreign)
        self._note_all("kustomization-missing-resource", document, lost_files(document.value, folder, self.files))
        made = {id(one) for one in generated}
        if is_whole and not self._renaming:
            before = [one for one in found if id(one) not in made]
            self._note_all("kustomization-merges-nothing", document, merged_from_nothing(document, before))
        found = self._patched(folder, found, is_whole)
        if renames(document) or any(
            _joined(folder, written) in self._renaming for _, written in listed(document.value)
        ):
            self._renaming.add(folder)
        self._note_all("kustomization-reference-not-renamed", document, lost_references(document, found))
        if not is_whole:
            self._partial.add(folder)
        elif found:
            self._check_targets(document, found)
        return [_transformed(one, document.value) for one in found]

    def _note_foreign(self, document: Document, folder: str, foreign: Sequence[tuple[FieldPath, str]]) -> None:
        """Note, once for a kustomization, what it brings that nobody can see here."""
        for path, why in foreign[:1]:
            message = f"building kustomization `{folder}`: not all that it makes is checked, since {why}"
            if len(foreign) > 1:
                message += f" (and {len(foreign) - 1} more)"
            self._note("not-rendered", document, path, message, fix="lint what `kustomize build` prints")

    def _is_inside(self, place: str) -> bool:
        """Whether the linted paths would show what stands there."""
        return str(PurePosixPath(place).parent) in self._folders and not place.startswith("..")

    def _patch_paths(self, document: Document) -> Iterator[tuple[FieldPath, str]]:
        value = document.value
        for name in ("patches", "patchesJson6902", "replacements"):
            for path, item in items(value, name):
                if written := text(item, "path"):
                    yield (*path, "path"), written
        for name in ("patchesStrategicMerge", "configurations", "transformers", "generators", "validators"):
            for path, item in items(value, name):
                if isinstance(item, str) and "\n" not in item:
                    yield path, item
        for path, item in items(value, "helmCharts"):
            if written := text(item, "valuesFile"):
                yield (*path, "valuesFile"), written

    def _patched(self, folder: str, found: list[Object], is_whole: bool) -> list[Object]:
        document = self.documents[folder]
        for path, patch in self._patches(folder):
            target = mapping(look(document.value, *path), "target")
            if isinstance(patch, dict) and not target:
                name, kind = text(patch, "metadata", "name"), text(patch, "kind")
                chosen = {id(one) for one in found if (one.kind, one.name) == (kind, name)}
            else:
                chosen = {id(one) for one in found if _is_target(one, target)}
            if not chosen and is_whole and (target or isinstance(patch, dict)):
                message = "reading kustomization: the patch matches none of the resources"
                fix = "correct kind and name of the patch or of its target"
                self._note("kustomization-patch-matches-nothing", document, path, message, fix=fix)
            self._check_containers(document, path, [one for one in found if id(one) in chosen], patch)
            lost = lost_paths(path, [one for one in found if id(one) in chosen], patch)
            self._note_all("kustomization-patch-path-missing", document, lost)
            if isinstance(patch, dict) and patch.get("$patch") == "delete":
                found = [one for one in found if id(one) not in chosen]
            found = [_with_patch(one, patch) if id(one) in chosen else one for one in found]
        return found

    def _patches(self, folder: str) -> Iterator[tuple[FieldPath, Any]]:
        document = self.documents[folder]
        for name in ("patches", "patchesJson6902", "patchesStrategicMerge"):
            for path, item in items(document.value, name):
                written = item if isinstance(item, str) else text(item, "path")
                inline = path if isinstance(item, str) else (*path, "patch")
                if isinstance(look(document.value, *inline), str) and "\n" in str(look(document.value, *inline)):
                    for inner in document.within(inline):
                        yield path, inner.value
                elif written and _joined(folder, written) in self.files:
                    for inner in self.values(_joined(folder, written)):
                        yield path, inner.value
                elif written and self._is_inside(_joined(folder, written)):
                    message = f"reading kustomization: no such file: {shown(written)}"
                    self._note("kustomization-missing-resource", document, path, message, fix="correct the path")

    def _check_targets(self, document: Document, found: Sequence[Object]) -> None:
        """Note images and numbers of replicas that are set for nothing that is built."""
        images = {_split_image(image)[0] for one in found for image in _images(one.value)}
        for path, image in items(document.value, "images"):
            name = text(image, "name")
            if name and name not in images:
                message = f"reading kustomization: none of the resources has an image of this name: {shown(name)}"
                fix = f"name one of: {', '.join(sorted(images))[:200]}" if images else "remove the entry"
                self._note("kustomization-image-unused", document, path, message, fix=fix)
        names = {one.name for one in found if one.name and one.kind in _REPLICATED}
        is_renamed = bool(self._renaming)  # prefixes and suffixes are not put on here
        for path, wanted in items(document.value, "replicas"):
            name = text(wanted, "name")
            if name and name not in names and not (is_renamed and any(one in name for one in names)):
                message = f"reading kustomization: replicas of nothing that is built: {shown(name)}"
                fix = f"name one of: {', '.join(sorted(names))[:200]}" if names else "remove the entry"
                self._note("kustomization-replicas-unmatched", document, path, message, fix=fix)

    def _check_repeated(
        self, document: Document, path: FieldPath, seen: set[Identity], added: Sequence[Object]
    ) -> None:
        """Note objects that a resource brings for the second time; generated ones may be merged."""
        for one in repeated(seen, [one for one in added if PurePosixPath(one.file).name not in NAMES]):
            message = f"reading kustomization: the resources before it have this object already: {shown(one.title)}"
            fix = "remove one of both, or make a patch of it"
            self._note("kustomization-resource-twice", document, path, message, fix=fix)

    def _check_containers(self, document: Document, path: FieldPath, chosen: Sequence[Object], patch: Any) -> None:
        """Note containers that a patch adds where it was to change one."""
        for one in chosen:
            for name in bare_containers(one, patch):
                message = f"reading patch of {one.title}: it adds a container without image: {shown(name)}"
                fix = f"name one of: {', '.join(container_names(one))[:200]}; or give the new container an image"
                self._note("kustomization-patch-adds-container", document, path, message, fix=fix)

    def _note_all(self, rule: str, document: Document, faults: Iterable[tuple[FieldPath, str, str]]) -> None:
        for path, message, fix in faults:
            self._note(rule, document, path, message, fix=fix)

    def note_left_out(self, found: Mapping[str, Sequence[Object]]) -> None:
        """Note files with objects that stand beside a kustomization and are part of none; what is built is known."""
        for one, kustomization in left_out(self.documents, found, self.patch_files() | self.used):
            message, fix = unlisted_message(one, kustomization), "list it under `resources`, or remove it"
            oddity = Oddity(
                rule="kustomization-file-unlisted", file=one.file, at_line=one.line(), message=message, fix=fix
            )
            self.oddities.append(oddity)

    def _note(self, rule: str, document: Document, path: FieldPath, message: str, *, fix: str) -> None:
        self.oddities.append(
            Oddity(rule=rule, file=document.file, at_line=document.line(path), path=path, message=message, fix=fix)
        )


def _joined(folder: str, written: str) -> str:
    return posixpath.normpath(posixpath.join(folder, written))


def _generated(document: Document) -> Iterator[Object]:
    """The ConfigMaps and Secrets that a kustomization generates; the values of files are not known."""
    for name, kind in (("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")):
        for path, item in items(document.value, name):
            data = {}
            for part in ("literals", "files"):
                for _, written in items(item, part):
                    key, _, content = str(written).partition("=")
                    data[key if content or part == "literals" else PurePosixPath(key).name] = content
            metadata = {"name": text(item, "name") or ""}
            if (namespace := text(item, "namespace")) is not None:
                metadata["namespace"] = namespace
            value = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
            value["data" if kind == "ConfigMap" else "stringData"] = data
            yield Object(Part(document, path, value), value, is_built=True)


def _is_target(found: Object, target: Mapping[str, Any]) -> bool:
    """Whether a patch's target selects an object; names are regular expressions, anchored."""
    for name, value in (("kind", found.kind), ("name", found.name), ("namespace", found.namespace or "")):
        wanted = target.get(name)
        if wanted and not _matches(str(wanted), value):
            return False
    if target.get("group") and target["group"] != found.group:
        return False
    selector = target.get("labelSelector")
    pairs = [pair.partition("=") for pair in str(selector).split(",")] if selector else []
    return all(found.labels.get(key.strip()) == value.strip("= ") for key, _, value in pairs)


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return pattern == value


def _with_patch(found: Object, patch: Any) -> Object:
    value, change = copy.deepcopy((dict(found.value), patch))
    value = json_patched(value, change) if isinstance(change, list) else merged(value, change)
    return replace(found, value=value, is_built=True) if isinstance(value, dict) else found


def _transformed(found: Object, kustomization: Any) -> Object:
    """An object with the namespace, labels, annotations, images and replicas of a kustomization."""
    value = copy.deepcopy(dict(found.value))
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return replace(found, is_built=True)
    namespace = text(kustomization, "namespace")
    if namespace and found.kind not in _CLUSTER_KINDS:
        metadata["namespace"] = namespace
    for path, subject in items(value, "subjects") if namespace else ():
        if text(subject, "kind") == "ServiceAccount":
            value["subjects"][path[-1]] = {"namespace": namespace, **subject}
    _add(metadata, "annotations", texts(kustomization, "commonAnnotations"))
    for labels, in_templates in _labels(kustomization):
        _add(metadata, "labels", labels)
        for place in POD_TEMPLATES.get(found.kind, ()) if in_templates else ():
            template = look(value, *place)
            if place and isinstance(template, dict):
                inner = template.setdefault("metadata", {})
                _add(inner, "labels", labels)
    for _, image in items(kustomization, "images"):
        _set_image(value, image)
    for _, wanted in items(kustomization, "replicas") if found.kind in _REPLICATED else ():
        if text(wanted, "name") == found.name and isinstance(value.get("spec"), dict) and "count" in wanted:
            value["spec"]["replicas"] = wanted["count"]
    return replace(found, value=value, is_built=True)


def _labels(kustomization: Any) -> Iterator[tuple[Mapping[str, str], bool]]:
    yield texts(kustomization, "commonLabels"), True
    for _, entry in items(kustomization, "labels"):
        yield texts(entry, "pairs"), bool(look(entry, "includeSelectors") or look(entry, "includeTemplates"))


def _add(holder: Any, name: str, entries: Mapping[str, str]) -> None:
    if entries and isinstance(holder, dict):
        present = holder.get(name)
        holder[name] = {**(present if isinstance(present, dict) else {}), **entries}


def _set_image(value: Any, image: Any) -> None:
    """Change every image of one name below a value, as the `images` field says."""
    if isinstance(value, list):
        for item in value:
            _set_image(item, image)
    if not isinstance(value, dict):
        return
    written = value.get("image")
    if isinstance(written, str):
        name, tag = _split_image(written)
        if name == text(image, "name"):
            digest = text(image, "digest")
            new_tag = look(image, "newTag")
            end = f"@{digest}" if digest else f":{new_tag}" if new_tag is not None else tag
            value["image"] = (text(image, "newName") or name) + end
    for item in value.values():
        _set_image(item, image)


def _images(value: Any) -> Iterator[str]:
    """Every image below a value."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _images(item)
    if isinstance(value, dict) and isinstance(value.get("image"), str):
        yield value["image"]


def _split_image(written: str) -> tuple[str, str]:
    name, at, digest = written.partition("@")
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        return head, f":{tag}{at}{digest}"
    return name, f"{at}{digest}"
