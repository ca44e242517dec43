"""Makes the files below some paths into the `World` that rules look at.

Decides what every document is: a Kubernetes object, a list of them, a tenant cluster's values, or something that is
none of our business. Texts inside of objects that hold values or objects are read too, with the lines of the file
around them. The engine calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.document import Disagreement, Document, Oddity
from provisioner.lint.files import Files, read_files
from provisioner.lint.holes import mask
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, TenantValues, World
from provisioner.lint.yaml_text import YamlDocument, parse_documents

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog

_TENANT_KEYS = frozenset(
    [
        "controlPlane",
        "deploy",
        "experimental",
        "exportKubeConfig",
        "external",
        "integrations",
        "logging",
        "networking",
        "plugins",
        "policies",
        "privateNodes",
        "rbac",
        "sleep",
        "snapshots",
        "stacks",
        "standalone",
        "sync",
        "telemetry",
    ]
)
"""What stands at the top of a tenant cluster's values."""
_SURE_TENANT_KEYS = frozenset({"controlPlane", "privateNodes", "exportKubeConfig"})
_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a document that is looked at by itself, such as an item of a list."""

    around: Document
    path: FieldPath
    value: Any

    @property
    def file(self) -> str:
        """The document's."""
        return self.around.file

    @property
    def disagreements(self) -> Sequence[Disagreement]:
        """Those of the piece."""
        length = len(self.path)
        return tuple(
            Disagreement(path=found.path[length:], text=found.text, reading=found.reading)
            for found in self.around.disagreements
            if found.path[:length] == self.path
        )

    def line(self, path: FieldPath = ()) -> int:
        """The line of a field of the piece."""
        return self.around.line((*self.path, *path))

    def within(self, path: FieldPath) -> tuple[Document, ...]:
        """The documents in a text of the piece."""
        return within(self.around, (*self.path, *path))


def read_world(
    paths: Sequence[Path], *, catalog: Catalog, kubernetes: tuple[int, int], baseline: Sequence[Path] = ()
) -> World:
    """The world below some paths, for an API server's version; `baseline` holds what is published already."""
    sorting = _Sorting()
    files = read_files(paths)
    sorting.take_all(files)
    published = _Sorting()
    published.take_all(read_files(baseline))
    return World(
        objects=tuple(sorting.objects),
        tenants=tuple(sorting.tenants),
        documents=tuple(sorting.documents),
        catalog=catalog,
        kubernetes=kubernetes,
        baseline=tuple(published.objects),
        files=frozenset(files.names),
        oddities=(*files.oddities, *sorting.oddities, *published.oddities),
    )


def within(document: Document, path: FieldPath) -> tuple[Document, ...]:
    """The documents in a text that stands in another one."""
    return document.within(path) if isinstance(document, YamlDocument | Part) else ()


@dataclass(slots=True)
class _Sorting:
    """Sorts documents into objects and values."""

    objects: list[Object] = field(default_factory=list)
    tenants: list[TenantValues] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)

    def take_all(self, files: Files) -> None:
        """Take every text that may hold manifests."""
        charts = {str(PurePosixPath(name).parent) for name in files.names if PurePosixPath(name).name == "Chart.yaml"}
        for name, content in files.texts.items():
            if _is_manifest(name, charts):
                self.take_text(name, content)

    def take_text(self, name: str, content: str) -> None:
        """Take every document of a file."""
        file_name = PurePosixPath(name).name
        masked = mask(content) if "{{" in content and _is_values_name(file_name) else None
        for document in parse_documents(masked.text if masked else content, file=name, masked=masked):
            self.oddities.extend(document.oddities)
            self.documents.append(document)
            if _is_tenant_values(file_name, document.value):
                self.tenants.append(TenantValues(document, mapping(document.value)))
            else:
                self.take(document)

    def take(self, document: Document, inside: Object | None = None, text_path: FieldPath = ()) -> None:
        """Take a document that may be an object or a list of them."""
        value = document.value
        if not isinstance(value, dict) or text(value, "kind") is None or text(value, "apiVersion") is None:
            return
        if str(value["kind"]).endswith("List") and isinstance(value.get("items"), list):
            for path, item in items(value, "items"):
                self.take(Part(document, path, item), inside, text_path)
            return
        found = Object(document, value, inside, text_path)
        self.objects.append(found)
        for path in _object_texts(found):
            for inner in self._within(found, path):
                self.take(inner, found, path)
        for path, parameters in _values_texts(found):
            for inner in self._within(found, path):
                self.tenants.append(TenantValues(inner, mapping(inner.value), found, path, parameters))

    def _within(self, owner: Object, path: FieldPath) -> Iterator[Document]:
        for inner in within(owner.document, path):
            if isinstance(inner, YamlDocument):
                self.oddities.extend(inner.oddities)
            yield inner


def _is_manifest(name: str, charts: set[str]) -> bool:
    path = PurePosixPath(name)
    in_chart = any(str(folder.parent) in charts for folder in path.parents if folder.name in ("templates", "charts"))
    return not in_chart and (path.name.endswith(_MANIFEST_SUFFIXES) or "." not in path.name)


def _is_values_name(name: str) -> bool:
    return name.startswith(("vcluster", "values")) or "vcluster" in name


def _is_tenant_values(name: str, value: Any) -> bool:
    if not isinstance(value, dict) or "apiVersion" in value or "kind" in value:
        return False
    if name in ("vcluster.yaml", "vcluster.yml"):
        return True
    return value.keys() <= _TENANT_KEYS and bool(value.keys() & _SURE_TENANT_KEYS)


_TEMPLATE_HOLDERS = {
    "VirtualClusterTemplate": "spec",
    "VirtualClusterInstance": "spec",
    "SpaceTemplate": "spec",
}


def _platform_templates(found: Object) -> Iterator[tuple[FieldPath, tuple[Any, ...]]]:
    """Where the templates of a Platform object stand, and the parameters that go with each."""
    if found.kind not in _TEMPLATE_HOLDERS:
        return
    common = tuple(item for _, item in items(found.value, "spec", "parameters"))
    yield ("spec", "template"), common
    for path, version in items(found.value, "spec", "versions"):
        own = tuple(item for _, item in items(version, "parameters"))
        yield (*path, "template"), own


def _values_texts(found: Object) -> Iterator[tuple[FieldPath, tuple[Any, ...] | None]]:
    for path, parameters in _platform_templates(found):
        place = (*path, "helmRelease", "values")
        if isinstance(look(found.value, *place), str):
            known = tuple(item for item in parameters if isinstance(item, dict))
            yield place, known if found.kind == "VirtualClusterTemplate" else None
    if found.kind == "Application" and text(found.value, "spec", "source", "chart") == "vcluster":
        place = ("spec", "source", "helm", "values")
        if isinstance(look(found.value, *place), str):
            yield place, None


def _object_texts(found: Object) -> Iterator[FieldPath]:
    for path, _ in _platform_templates(found):
        for place in ((*path, "objects"), (*path, "spaceTemplate", "objects")):
            if isinstance(look(found.value, *place), str):
                yield place
