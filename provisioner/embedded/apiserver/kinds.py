"""Which kinds a cluster serves: the built-in ones, those shipped as CRD files, and those of the cluster's own CRDs.

The built-in list is derived, not written down: names, scopes and subresources from lightkube's generated resources,
content from the public definitions that kubernetes-validate ships. Only stable versions are served, as a real server
does unless told otherwise. Read by every room that has to know what a path means.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Final

import jsonschema_rs
import kubernetes_validate
import lightkube.resources
import orjson
import yaml

from provisioner.embedded.apiserver import schema, status
from provisioner.embedded.apiserver.names import ALL_CATEGORY, SHORT_NAMES
from provisioner.embedded.apiserver.schema import Checker
from provisioner.embedded.apiserver.shape import Definitions, Json, Shape
from provisioner.embedded.apiserver.status import Cause, Target

KUBERNETES_VERSION: Final = "1.36"
_STABLE_MODULE = re.compile(r"_v\d+$")
# A second view of core events under other field names; serving it would need a conversion that no client here wants.
_LEFT_OUT: Final = frozenset({("events.k8s.io", "Event"), ("", "ComponentStatus")})


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows. Paths are dotted, without a leading dot."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of a custom kind's table: a JSONPath into the object, and how its value is to be read."""

    name: str
    type: str
    path: str
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Kind:
    """One kind in one version, as it is served."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    namespaced: bool
    custom: bool
    has_status: bool
    shape: Shape
    checker: Checker
    schema: Json
    definition: str = ""
    scale: ScalePaths | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    field_paths: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_key(self) -> str:
        """Names the collection, the same for all versions of a kind."""
        return f"{self.group}/{self.plural}"

    def in_version(self, document: Json) -> Json:
        """A stored object as this version shows it: versions of custom kinds differ in nothing but their name."""
        return document | {"apiVersion": self.api_version} if self.custom else document

    @property
    def target(self) -> Target:
        """The kind as errors name it."""
        return Target(self.group, self.plural, self.kind)


@dataclass(frozen=True, slots=True)
class Builtins:
    """What every cluster serves before it has any CRD of its own."""

    shapes: Definitions
    kinds: tuple[Kind, ...]


class Registry:
    """The kinds of one cluster. `custom` wins over `builtins`: a cluster may bring its own CRD for a shipped kind."""

    def __init__(self, builtins: Builtins, custom: Iterable[Kind] = ()) -> None:
        own = tuple(custom)
        replaced = {kind.storage_key for kind in own}
        self.kinds = (*(kind for kind in builtins.kinds if kind.storage_key not in replaced), *own)
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self.kinds}

    def limited_to(self, group: str) -> Registry:
        """The same with the kinds of one group alone."""
        return Registry(Builtins(Definitions({}), ()), (kind for kind in self.kinds if kind.group == group))

    def find(self, *, group: str, version: str, plural: str) -> Kind | None:
        """The kind that a path names, or None."""
        return self._by_path.get((group, version, plural))

    def groups(self) -> dict[str, list[str]]:
        """The served versions of each group, the core group (`""`) first, newest version first."""
        found: dict[str, list[str]] = {}
        for kind in sorted(self.kinds, key=lambda kind: kind.group):
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return {group: sorted(versions, key=_priority, reverse=True) for group, versions in found.items()}

    def of_version(self, group: str, version: str) -> list[Kind]:
        """The kinds of one group and version, by plural."""
        found = (kind for kind in self.kinds if (kind.group, kind.version) == (group, version))
        return sorted(found, key=lambda kind: kind.plural)


@cache
def load_builtins() -> Builtins:
    """Reads the public definitions and the shipped CRDs (about 0.3 s); the same value on every call."""
    shapes = Definitions(_definitions())
    builtin = tuple(_builtin_kinds(shapes.definitions, shapes))
    shipped = tuple(kind for document in _shipped_crds() for kind in _custom_kinds(document["spec"], shapes))
    return Builtins(shapes, builtin + shipped)


def kinds_of_crd(document: Json) -> tuple[Kind, ...]:
    """The kinds that a CustomResourceDefinition makes served, one for each served version.

    The same definition gives the same kinds, in whichever cluster it stands: compiling a large one takes 20 ms.
    """
    return _kinds_of_spec(orjson.dumps(document["spec"], option=orjson.OPT_SORT_KEYS))


def check_crd(document: Json) -> None:
    """Raises 422 on a definition that cannot be served; accepted, it would break discovery of the whole cluster."""
    spec, name = document["spec"], document["metadata"]["name"]
    target = Target("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
    wanted = f"{spec['names']['plural']}.{spec['group']}"
    faults = []
    if name != wanted:
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        faults.append(Cause("FieldValueInvalid", message, "metadata.name"))
    if [bool(version["storage"]) for version in spec["versions"]].count(True) != 1:
        message = "Invalid value: must have exactly one version marked as storage version"
        faults.append(Cause("FieldValueInvalid", message, "spec.versions"))
    if any(not kind.custom and kind.group == spec["group"] for kind in load_builtins().kinds):
        message = f'Invalid value: "{spec["group"]}": the group belongs to built-in kinds'
        faults.append(Cause("FieldValueInvalid", message, "spec.group"))
    try:
        for kind in () if faults else kinds_of_crd(document):
            kind.checker.compile()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"Invalid value: the schema of a version cannot be understood: {error}"
        faults.append(Cause("FieldValueInvalid", message, "spec.versions"))
    if faults:
        raise status.invalid(target, name, causes=faults)


def metadata_fault(metadata: object) -> str | None:
    """What is wrong with the form of an object's metadata, which all else relies on, or None."""
    shape = load_builtins().shapes.shape(schema.METADATA)
    error = next(_metadata_validator().iter_errors(schema.conform(metadata, shape, report=schema.Report())), None)
    return f"{schema.dotted(['metadata', *error.instance_path])}: {error.message}" if error else None


@cache
def _metadata_validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema.builtin_schema(schema.METADATA, _definitions()))


@lru_cache(maxsize=512)
def _kinds_of_spec(text: bytes) -> tuple[Kind, ...]:
    return _custom_kinds(orjson.loads(text), Definitions(_definitions()))


def _custom_kinds(spec: Json, shapes: Definitions) -> tuple[Kind, ...]:
    return tuple(_custom_kind(spec, version, shapes) for version in spec["versions"] if version["served"])


@cache
def _definitions() -> Mapping[str, Json]:
    root = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    file = root / f"v{KUBERNETES_VERSION}.0-local" / "_definitions.json"
    definitions: Mapping[str, Json] = orjson.loads(file.read_bytes())["$defs"]
    return definitions


def _shipped_crds() -> Iterator[Json]:
    folder = resources.files("provisioner.embedded.apiserver") / "crds"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".yaml"):
            yield from yaml.safe_load(file.read_text())["items"]


@dataclass(slots=True)
class _Entry:
    """A collection as lightkube's generated classes describe it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    actions: set[str] = field(default_factory=set)


def _builtin_kinds(definitions: Mapping[str, Json], shapes: Definitions) -> Iterator[Kind]:
    names = {
        (entry["group"], entry["version"], entry["kind"]): name
        for name, definition in definitions.items()
        for entry in definition.get("x-kubernetes-group-version-kind", ())
    }
    entries = [entry for entry in _entries() if (entry.group, entry.version, entry.kind) in names]
    newest: dict[tuple[str, str], _Entry] = {}
    for entry in sorted(entries, key=lambda entry: _priority(entry.version)):
        newest[entry.group, entry.plural] = entry
    for entry in newest.values():
        name = names[entry.group, entry.version, entry.kind]
        target = Target(entry.group, entry.plural, entry.kind)
        yield Kind(
            group=entry.group,
            version=entry.version,
            kind=entry.kind,
            plural=entry.plural,
            singular=entry.kind.lower(),
            list_kind=f"{entry.kind}List",
            namespaced=entry.namespaced,
            custom=False,
            has_status="status" in entry.actions,
            shape=shapes.shape(name),
            checker=Checker(partial(schema.builtin_schema, name, definitions), target=target, custom=False),
            schema=definitions[name],
            definition=name,
            scale=ScalePaths() if "scale" in entry.actions else None,
            short_names=SHORT_NAMES.get(entry.plural, ()),
            categories=("all",) if entry.plural in ALL_CATEGORY else (),
            field_paths=field_paths(entry.group, entry.kind),
        )


def _entries() -> Iterator[_Entry]:
    found: dict[tuple[str, str, str], _Entry] = {}
    actions: dict[tuple[str, str, str], set[str]] = {}
    for module_info in pkgutil.iter_modules(lightkube.resources.__path__):
        if not _STABLE_MODULE.search(module_info.name):
            continue
        module = importlib.import_module(f"lightkube.resources.{module_info.name}")
        for resource in vars(module).values():
            info = getattr(resource, "_api_info", None)
            if info is None or resource.__module__ != module.__name__:
                continue
            owner = info.parent or info.resource
            key = (owner.group, owner.version, info.plural)
            if info.action:
                actions.setdefault(key, set()).add(info.action)
            elif "list" in info.verbs and (owner.group, owner.kind) not in _LEFT_OUT:
                namespaced = "global_list" in info.verbs
                found[key] = _Entry(owner.group, owner.version, owner.kind, info.plural, namespaced)
    for key, entry in found.items():
        entry.actions = actions.get(key, set())
        yield entry


def _custom_kind(spec: Json, version: Json, shapes: Definitions) -> Kind:
    names = spec["names"]
    group, kind = spec["group"], names["kind"]
    target = Target(group, names["plural"], kind)
    content: Json = version.get("schema", {}).get("openAPIV3Schema") or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    subresources = version.get("subresources") or {}
    return Kind(
        group=group,
        version=version["name"],
        kind=kind,
        plural=names["plural"],
        singular=names.get("singular") or kind.lower(),
        list_kind=names.get("listKind") or f"{kind}List",
        namespaced=spec["scope"] == "Namespaced",
        custom=True,
        has_status="status" in subresources,
        shape=shapes.custom(content),
        checker=Checker(lambda: schema.custom_schema(content, shapes.definitions), target=target, custom=True),
        schema=content,
        scale=_scale_paths(subresources.get("scale")),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_printer_column(column) for column in version.get("additionalPrinterColumns") or ()),
        field_paths=_METADATA_PATHS
        | {entry["jsonPath"].lstrip(".") for entry in version.get("selectableFields") or ()},
    )


def _scale_paths(scale: Json | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"].lstrip("."),
        scale["statusReplicasPath"].lstrip("."),
        scale.get("labelSelectorPath", "").lstrip("."),
    )


def _printer_column(column: Json) -> PrinterColumn:
    return PrinterColumn(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("priority", 0),
        column.get("description", ""),
    )


def _priority(version: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if not found:
        return (0, 0, 0)
    return ({"alpha": 1, "beta": 2}.get(found[2], 3), int(found[1]), int(found[3] or 0))


_METADATA_PATHS: Final = frozenset({"metadata.name", "metadata.namespace"})
_FIELD_PATHS: Final[Mapping[str, str]] = {
    "/Pod": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName",
    "/Event": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
    "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent "
    "source type",
    "/Secret": "type",
    "/Service": "spec.clusterIP spec.type",
    "/Namespace": "status.phase",
    "/Node": "spec.unschedulable",
    "apps/ReplicaSet": "status.replicas",
    "/ReplicationController": "status.replicas",
    "batch/Job": "status.successful",
    "certificates.k8s.io/CertificateSigningRequest": "spec.signerName",
    "resource.k8s.io/ResourceSlice": "spec.nodeName spec.driver",
}


def field_paths(group: str, kind: str) -> frozenset[str]:
    """The paths that a field selector may name for a built-in kind. Not in the public definitions."""
    return _METADATA_PATHS | frozenset(_FIELD_PATHS.get(f"{group}/{kind}", "").split())
