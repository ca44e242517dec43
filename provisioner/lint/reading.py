"""Makes the files below some paths into the `World` that rules look at.

Decides what every document is: a Kubernetes object, a list of them, a tenant cluster's values, or something that is
none of our business. Texts inside of objects that hold values or objects are read too, with the lines of the file
around them. The engine calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint import kustomize
from provisioner.lint.charts import CHART_FILE, Chart, charts_of, is_chart_text
from provisioner.lint.document import Document, Oddity, Part
from provisioner.lint.files import Files, read_files
from provisioner.lint.helm import rendered_chart
from provisioner.lint.holes import mask
from provisioner.lint.jinja_folders import JinjaFolder, declaring_folders, has_plain_holes, is_jinja, jinja_folders
from provisioner.lint.jinja_holes import hole_oddities
from provisioner.lint.jinja_syntax import template_oddities
from provisioner.lint.kustomize import Kustomizations
from provisioner.lint.pack_compiling import CompiledPack, Plans, compiled_packs, no_plans, pack_roots
from provisioner.lint.rendition import NotRendered, RenderedText, Rendition, documents_of
from provisioner.lint.unrendered import bare_folders, lacking_oddities, not_rendered
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, TenantValues, World
from provisioner.lint.yaml_text import YamlDocument, is_too_large, parse_documents

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
_SETTINGS_GROUPS = frozenset({"kubeadm.k8s.io", "audit.k8s.io", "kind.x-k8s.io", "k3d.io", "eksctl.io", "skaffold"})
_TEMPLATE_SUFFIXES = (".tpl", ".j2")
_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
_WITH_COMMENTS = re.compile(r"(ts|js)config(\..+)?\.json")
"""Files named .json in which comments are allowed, beside programs that deliver manifests."""
_OF_OTHER_TOOLS = frozenset({"yaml-unknown-tag"})
"""What is no mistake in the files of mkdocs, CloudFormation and the like."""


def read_world(
    paths: Sequence[Path],
    *,
    catalog: Catalog,
    kubernetes: tuple[int, int],
    baseline: Sequence[Path] = (),
    plans: Plans = no_plans,
) -> World:
    """The world below some paths, for an API server's version; `baseline` holds what is published already, and `plans`
    tells which endpoints stand for a tier of a catalog folder."""
    sorting = Sorting()
    files = read_files(paths)
    sorting.take_all(files)
    packs = compiled_packs(frozenset(files.names), plans)
    published, published_files = Sorting(), read_files(baseline)
    published.take_all(published_files)
    return World(
        objects=tuple(sorting.objects),
        tenants=tuple(sorting.tenants),
        documents=tuple(sorting.documents),
        catalog=catalog,
        kubernetes=kubernetes,
        baseline=tuple(published.objects),
        charts=sorting.charts,
        renditions=(
            *renditions(sorting, catalog=catalog, kubernetes=kubernetes),
            *pack_renditions(packs, catalog=catalog, kubernetes=kubernetes),
        ),
        files=frozenset(files.names),
        oddities=(
            *files.oddities,
            *sorting.oddities,
            *published_files.oddities,
            *published.oddities,
            *template_oddities(files.texts, packs),
            *(oddity for folder in sorting.folders for oddity in hole_oddities(folder)),
        ),
    )


def renditions(sorting: Sorting, *, catalog: Catalog, kubernetes: tuple[int, int]) -> Iterator[Rendition]:
    """What the templates of charts and folders make, each by itself. Notes those that are not rendered."""
    for chart in sorting.charts:
        try:
            rendered = rendered_chart(chart, kubernetes)
        except NotRendered as error:
            sorting.oddities.append(not_rendered(f"chart `{chart.name}`", error, tool="`helm template`"))
            continue
        sorting.oddities.extend(lacking_oddities(rendered))
        if rendered.texts:
            yield rendition_of(rendered.texts, catalog=catalog, kubernetes=kubernetes)
    for folder in sorting.folders:
        try:
            texts = folder.rendered()
        except NotRendered as error:
            sorting.oddities.append(not_rendered(f"templates of `{folder.folder}`", error, tool="your renderer"))
            continue
        if texts:
            yield rendition_of(texts, catalog=catalog, kubernetes=kubernetes, change=folder.without_stand_ins)


def pack_renditions(
    packs: Sequence[CompiledPack], *, catalog: Catalog, kubernetes: tuple[int, int]
) -> Iterator[Rendition]:
    """What catalog folders make, each case by itself."""
    for pack in packs:
        for texts in pack.renditions:
            yield rendition_of(texts, catalog=pack.catalog or catalog, kubernetes=kubernetes)


def rendition_of(
    texts: Sequence[RenderedText],
    *,
    catalog: Catalog,
    kubernetes: tuple[int, int],
    change: Callable[[Any], Any] = lambda value: value,
) -> Rendition:
    """Texts that templates make together, as a world; `change` is asked for the value of every document."""
    sorting = Sorting()
    for rendered in texts:
        for document in documents_of(rendered):
            document.value = change(document.value)
            sorting.documents.append(document)
            sorting.oddities.extend(document.oddities)
            for one in _objects([document]):
                sorting.take(one)
    world = World(
        objects=tuple(sorting.objects),
        tenants=tuple(sorting.tenants),
        documents=tuple(sorting.documents),
        catalog=catalog,
        kubernetes=kubernetes,
        oddities=tuple(sorting.oddities),
    )
    return Rendition(world, {one.file: one.places for one in texts})


@dataclass(slots=True)
class Sorting:
    """Sorts documents into objects and values."""

    objects: list[Object] = field(default_factory=list)
    tenants: list[TenantValues] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    charts: tuple[Chart, ...] = ()
    folders: tuple[JinjaFolder, ...] = ()

    def take_all(self, files: Files) -> None:
        """Take every text that may hold manifests."""
        charts = frozenset(str(path.parent) for name in files.names if (path := PurePosixPath(name)).name == CHART_FILE)
        declared = declaring_folders(files.texts)
        read = {
            name: self._read(name, content)
            for name, content in files.texts.items()
            if _is_manifest(name, charts, is_asked_for=name in files.asked_for)
            and not is_jinja(name, content, declared)
        }
        self.charts = tuple(charts_of(files.texts, read))
        self.folders = tuple(jinja_folders(files.texts, read, pack_roots(files.names)))
        self.oddities.extend(bare_folders(files.texts, self.folders, pack_roots(files.names)))
        folders = {
            str(PurePosixPath(name).parent): documents[0]
            for name, documents in read.items()
            if PurePosixPath(name).name in kustomize.NAMES and documents and isinstance(documents[0].value, dict)
        }
        found = {name: _objects(documents) for name, documents in read.items()}
        built = Kustomizations(
            folders, objects=found.__getitem__, values=read.__getitem__, files=frozenset(files.names)
        )
        objects = built.build()
        built.note_left_out(found)
        apart = built.used | built.patch_files()
        for name in read:
            self.documents.extend(read[name] if name not in apart else ())
            for one in found[name] if name not in apart else ():
                self.take(one)
        for one in objects:
            self.take(one)
        self.oddities.extend(built.oddities)

    def _read(self, name: str, content: str) -> Sequence[Document]:
        """Every document of a file that may be of interest; a tenant cluster's values are taken at once."""
        file_name = PurePosixPath(name).name
        has_holes = "{{" in content and (_is_values_name(file_name) or has_plain_holes(content))
        may_have_holes = has_holes and not is_too_large(content)
        masked = mask(content) if may_have_holes else None
        found = []
        for document in parse_documents(masked.text if masked else content, file=name, masked=masked):
            is_values = _is_tenant_values(file_name, document.value)
            is_ours = is_values or file_name in kustomize.NAMES or _is_object(document.value)
            self.oddities.extend(odd for odd in document.oddities if is_ours or odd.rule not in _OF_OTHER_TOOLS)
            if is_values:
                self.tenants.append(TenantValues(document, mapping(document.value)))
            found.append(document)
        return found

    def take(self, found: Object) -> None:
        """Take an object, and what stands in its texts."""
        self.objects.append(found)
        for path in _object_texts(found):
            for inner in self._within(found, path):
                for one in _objects([inner]):
                    self.take(replace(one, inside=found, text_path=path))
        for path, parameters in _values_texts(found):
            for inner in self._within(found, path):
                self.tenants.append(TenantValues(inner, mapping(inner.value), found, path, parameters))

    def _within(self, owner: Object, path: FieldPath) -> Iterator[Document]:
        for inner in owner.document.within(path):
            if isinstance(inner, YamlDocument):
                self.oddities.extend(inner.oddities)
            yield inner


def _objects(documents: Sequence[Document]) -> list[Object]:
    """The objects of documents, those of lists one by one."""
    found: list[Object] = []
    for document in documents:
        value = document.value
        if not _is_object(value):
            continue
        if str(value["kind"]).endswith("List") and isinstance(value.get("items"), list):
            found += _objects([Part(document, path, item) for path, item in items(value, "items")])
        elif not _is_settings(value):
            found.append(Object(document, value))
    return found


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and text(value, "kind") is not None and text(value, "apiVersion") is not None


def _is_settings(value: Any) -> bool:
    """Whether it has the form of an object but is a file of settings that no API server takes."""
    version, kind = str(value["apiVersion"]), str(value["kind"])
    group = version.rpartition("/")[0]
    return (
        group.endswith(".config.k8s.io")
        or group in _SETTINGS_GROUPS
        or (version == "v1" and kind == "Config")
        or (kind in ("Kustomization", "Component") and group in ("", "kustomize.config.k8s.io"))
    )


def _is_manifest(name: str, charts: frozenset[str], *, is_asked_for: bool) -> bool:
    path = PurePosixPath(name)
    if is_chart_text(name, charts) or path.name.endswith(_TEMPLATE_SUFFIXES) or _WITH_COMMENTS.fullmatch(path.name):
        return False
    return is_asked_for or path.name.endswith(_MANIFEST_SUFFIXES) or path.name in kustomize.NAMES


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
