"""Names, namespaces and labels of objects of any kind, and objects that stand twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, look, mapping, text
from provisioner.lint.world import POD_TEMPLATES, Object, World

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(rf"(?P<prefix>{_SUBDOMAIN.pattern}/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_PATH_SEGMENT_GROUPS = frozenset({"rbac.authorization.k8s.io", "certificates.k8s.io", "apiregistration.k8s.io"})
_LABEL_KINDS = frozenset({("", "Service"), ("", "Namespace")})
"""Kinds whose names are a DNS label: no dots."""

_LONGEST: Mapping[tuple[str, str], tuple[int, str]] = {
    ("", "Service"): (63, "it is a DNS label"),
    ("", "Namespace"): (63, "it is a DNS label"),
    ("batch", "Job"): (63, "the Job controller puts it into a label of its pods"),
    ("batch", "CronJob"): (52, "the Jobs that it makes are named after it with 11 characters more"),
    ("apps", "StatefulSet"): (52, "its pods carry it with `-` and a hash of 10 in the label controller-revision-hash"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        50,
        "its worker StatefulSets are named `<name>-<group>`, and their pods carry that with a hash in a label",
    ),
}
_MAX_NAME = 253


@rule("object-without-name", Severity.ERROR)
def without_name(world: World) -> Iterator[Hit]:
    """An object has no name.

    Every object that is applied needs `metadata.name`; `generateName` works with `kubectl create` and Argo CD hooks.
    """
    for found in world.objects:
        metadata = mapping(found.value, "metadata")
        if not metadata.get("name") and not metadata.get("generateName"):
            message = f"reading {found.kind or 'object'}: metadata.name is missing"
            yield Hit(at=found, path=("metadata",), message=message, fix="give it a name")


@rule("object-name-invalid", Severity.ERROR)
def name_invalid(world: World) -> Iterator[Hit]:
    """A name or namespace has characters that Kubernetes does not allow.

    Names are DNS names: lower-case letters, digits, `-` and, but for Services and Namespaces, dots; they start and end
    with a letter or digit. Underscores, capitals and slashes (as in model ids) are the usual slips.
    """
    for found in world.objects:
        name, namespace = found.name, found.namespace
        if name and not has_hole(name) and not _is_name(found, name):
            message = f"reading name: not a valid name of a {found.kind}: {shown(name)}"
            mended = _mended(name).replace(".", "-") if (found.group, found.kind) in _LABEL_KINDS else _mended(name)
            yield Hit(at=found, path=("metadata", "name"), message=message, fix=f"write {shown(mended)}")
        if namespace and not has_hole(namespace) and not _LABEL.fullmatch(namespace):
            message = f"reading namespace: not a valid namespace: {shown(namespace)}"
            fix = f"write {shown(_mended(namespace).replace('.', '-'))}"
            yield Hit(at=found, path=("metadata", "namespace"), message=message, fix=fix)


@rule("object-name-too-long", Severity.ERROR)
def name_too_long(world: World) -> Iterator[Hit]:
    """A name is longer than what is made of it allows.

    Service and Namespace names are DNS labels (63). A StatefulSet of more than 52 characters is accepted and never gets
    a pod, since its pods' labels would be invalid; a CronJob of more than 52 is refused. Names that are put together
    from customer, model and revision get there quickly.
    """
    for found in world.objects:
        longest, why = _LONGEST.get((found.group, found.kind), (_MAX_NAME, "no object's name may be longer"))
        if len(found.name) > longest:
            message = f"reading name: {len(found.name)} characters, at most {longest}: {shown(found.name)}"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix=f"shorten it: {why}")
        if found.namespace and len(found.namespace) > 63:
            message = f"reading namespace: {len(found.namespace)} characters, at most 63: {shown(found.namespace)}"
            yield Hit(at=found, path=("metadata", "namespace"), message=message, fix="shorten it: it is a DNS label")


@rule("label-invalid", Severity.ERROR)
def label_invalid(world: World) -> Iterator[Hit]:
    """A label has a key or a value that Kubernetes does not allow.

    Values have at most 63 characters of letters, digits, `-`, `_` and `.`, so a model id with a slash cannot be a label
    value; an annotation can hold it. Keys may have a prefix that is a DNS name and one slash. What a pod's nodeSelector
    or a ResourceFlavor wants of nodes are labels too: product names have `-` for their spaces there.
    """
    for found in world.objects:
        for path in _label_places(found):
            for key, value in mapping(found.value, *path).items():
                fault = _key_fault(key) or (_value_fault(value) if isinstance(value, str) else None)
                if fault and not isinstance(value, Hole) and not has_hole(key):
                    message = f"reading label {shown(key)}: {fault[0]}"
                    yield Hit(at=found, path=(*path, key), message=message, fix=fault[1])


@rule("annotation-key-invalid", Severity.ERROR)
def annotation_key_invalid(world: World) -> Iterator[Hit]:
    """An annotation has a key that Kubernetes does not allow.

    Keys are a name of at most 63 characters, with an optional prefix that is a DNS name, and one slash between them.
    """
    for found in world.objects:
        for place in _metadata_places(found):
            for key in mapping(found.value, *place, "annotations"):
                fault = _key_fault(key)
                if fault and not has_hole(key):
                    message = f"reading annotation {shown(key)}: {fault[0]}"
                    yield Hit(at=found, path=(*place, "annotations", key), message=message, fix=fault[1])


@rule("object-twice-in-file", Severity.ERROR)
def twice_in_file(world: World) -> Iterator[Hit]:
    """A file holds the same object twice.

    Whoever applies the file applies both, and the last one wins, without a word. Argo CD warns with
    RepeatedResourceWarning and keeps one of them; kustomize refuses the file.
    """
    for found, first in _repeated(world):
        if found.file == first.file:
            message = f"reading {found.title}: it stands on line {first.line()} already"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix="keep one, or give one another name")


@rule("object-twice-in-folder", Severity.WARNING)
def twice_in_folder(world: World) -> Iterator[Hit]:
    """Two files of one folder hold the same object.

    Applied together, as `kubectl apply -f` and an Argo CD directory do, the last one by file name wins. Variants belong
    into folders of their own. Folders with a `kustomization.yaml` that lists their files are looked at as it says.
    """
    for found, first in _repeated(world):
        if found.file != first.file:
            message = f"reading {found.title}: it stands in {first.file} already"
            fix = "keep one, or move the variants into folders of their own"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix=fix)


@rule("crd-after-its-objects", Severity.WARNING)
def crd_after_its_objects(world: World) -> Iterator[Hit]:
    """An object stands before the CustomResourceDefinition of its kind, in the same file or an earlier one.

    `kubectl apply -f` sends objects in the order of files and documents, and refuses the object: `no matches for kind`.
    Argo CD orders by sync wave and kind, so there the order in the files does not matter.
    """
    definitions = {
        (text(found.value, "spec", "group"), text(found.value, "spec", "names", "kind")): (place, found)
        for place, found in enumerate(world.objects)
        if found.kind == "CustomResourceDefinition"
    }
    delivered = world.has("Application") or world.has("ApplicationSet")
    for place, found in enumerate(world.objects if definitions and not delivered else ()):
        later, definition = definitions.get((found.group, found.kind), (-1, found))
        same_folder = PurePosixPath(found.file).parent == PurePosixPath(definition.file).parent
        if later > place and same_folder and found.inside is definition.inside and not _has_waves(found, definition):
            message = f"reading {found.title}: it stands before the definition of its kind in {definition.file}"
            yield Hit(at=found, path=("kind",), message=message, fix="move the CustomResourceDefinition before it")


def _has_waves(*objects: Object) -> bool:
    return any("argocd.argoproj.io/sync-wave" in found.annotations for found in objects)


@lru_cache(maxsize=1)
def _repeated(world: World) -> Sequence[tuple[Object, Object]]:
    """Objects that stand in a folder for the second time, and the first one."""
    found_again: list[tuple[Object, Object]] = []
    first: dict[tuple[object, ...], Object] = {}
    for found in world.objects:
        if not found.name or isinstance(look(found.value, "metadata", "name"), Hole) or found.is_built:
            continue
        key = (found.folder, found.inside, found.text_path, found.group, found.kind, found.namespace, found.name)
        if key in first:
            found_again.append((found, first[key]))
        else:
            first[key] = found
    return found_again


def _is_name(found: Object, name: str) -> bool:
    if found.group in _PATH_SEGMENT_GROUPS:
        return "/" not in name and "%" not in name and name not in (".", "..")
    if found.kind in ("IPAddress", "ServiceCIDR"):
        return True
    wanted = _LABEL if (found.group, found.kind) in _LABEL_KINDS else _SUBDOMAIN
    return wanted.fullmatch(name) is not None


def _mended(name: str) -> str:
    """The nearest name that is allowed."""
    letters = re.sub(r"[^a-z0-9.-]+", "-", name.lower())
    return re.sub(r"-*\.[-.]*", ".", letters).strip("-.") or "a-name"


def _metadata_places(found: Object) -> Iterator[FieldPath]:
    yield ("metadata",)
    for path in POD_TEMPLATES.get(found.kind, ()):
        if path:
            yield (*path, "metadata")


def _label_places(found: Object) -> Iterator[FieldPath]:
    for place in _metadata_places(found):
        yield (*place, "labels")
    if found.kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "PodDisruptionBudget"):
        yield ("spec", "selector", "matchLabels")
    for path in POD_TEMPLATES.get(found.kind, ()):
        yield (*path, "spec", "nodeSelector")
    if found.kind == "ResourceFlavor":
        yield ("spec", "nodeLabels")
    if found.kind == "Service" and not found.group:
        yield ("spec", "selector")
    if found.kind == "NetworkPolicy":
        yield ("spec", "podSelector", "matchLabels")


def _key_fault(key: str) -> tuple[str, str] | None:
    name = key.rpartition("/")[2]
    if not _QUALIFIED.fullmatch(key):
        return "not a valid key", "write `name` or `prefix.example.com/name`, letters, digits, `-`, `_`, `.`"
    if len(name) > 63 or len(key) - len(name) > 254:
        return f"its name has {len(name)} characters, at most 63", "shorten it"
    return None


def _value_fault(value: str) -> tuple[str, str] | None:
    if len(value) > 63:
        return f"its value has {len(value)} characters, at most 63: {shown(value)}", "shorten it, or use an annotation"
    if not _LABEL_VALUE.fullmatch(value):
        fix = "use letters, digits, `-`, `_` and `.` only, or put it into an annotation"
        return f"not a valid value: {shown(value)}", fix
    return None
