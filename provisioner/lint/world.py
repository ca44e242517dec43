"""The world that rules look at: all objects and tenant-cluster values below the linted paths, joined.

A world is made once by `reading` and never changes. Rules ask it for objects by kind, for pod templates whatever owns
them, and for tenant-cluster values. Two things are in the same namespace when they say so or when one of them leaves
it to whoever applies it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import items, mapping, text, texts, whole

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog
    from provisioner.lint.charts import Chart
    from provisioner.lint.document import Document, Oddity
    from provisioner.lint.rendition import Rendition
    from provisioner.lint.schemas import Problem, Schemas

POD_TEMPLATES: Mapping[str, tuple[FieldPath, ...]] = {
    "Pod": ((),),
    "Deployment": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "ReplicaSet": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Where the pod templates of each kind stand."""


@dataclass(frozen=True, eq=False)
class Object:
    """One Kubernetes object. `value` is what JSON can hold; its fields may be of any type."""

    document: Document
    value: Mapping[str, Any]
    inside: Object | None = None
    """The VirtualClusterTemplate or Application in whose text it stands, None for an object of a file."""
    text_path: FieldPath = ()
    """Where that text stands in `inside`."""
    is_built: bool = False
    """Whether kustomize builds it: its value is the built one, its lines are those of the file it comes from."""
    kustomization: str | None = None
    """The folder of the outermost kustomization that builds it."""

    @cached_property
    def api_version(self) -> str:
        """Group and version as written."""
        return text(self.value, "apiVersion") or ""

    @cached_property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def kind(self) -> str:
        """The kind as written."""
        return text(self.value, "kind") or ""

    @cached_property
    def name(self) -> str:
        """`metadata.name`, empty where there is none."""
        return text(self.value, "metadata", "name") or ""

    @cached_property
    def namespace(self) -> str | None:
        """`metadata.namespace`, None where whoever applies it decides."""
        return text(self.value, "metadata", "namespace")

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Its own labels."""
        return texts(self.value, "metadata", "labels")

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """Its own annotations."""
        return texts(self.value, "metadata", "annotations")

    @property
    def file(self) -> str:
        """Where it stands."""
        return self.document.file

    @cached_property
    def folder(self) -> str:
        """The folder in which it stands, or of the kustomization that builds it."""
        return self.file.rpartition("/")[0] if self.kustomization is None else self.kustomization

    @property
    def title(self) -> str:
        """`Service inference/chat`."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}".strip()

    def line(self, path: FieldPath = ()) -> int:
        """The line of a field, or of the nearest thing around it."""
        return self.document.line(path)


@dataclass(frozen=True, eq=False)
class Container:
    """A container of a pod template, and where it stands in the owner."""

    value: Mapping[str, Any]
    path: FieldPath
    is_init: bool

    @property
    def name(self) -> str:
        """Its name, empty where there is none."""
        return text(self.value, "name") or ""

    @property
    def image(self) -> str:
        """The image reference, empty where there is none or it is not known yet."""
        return text(self.value, "image") or ""

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """`command` and `args`, in this order, as far as they are known texts."""
        words = [item for part in ("command", "args") for _, item in items(self.value, part)]
        return tuple(str(word) for word in words if isinstance(word, str | int | float))


@dataclass(frozen=True, eq=False)
class PodTemplate:
    """Pods that an object makes (or is): `path` leads to the template in the owner."""

    owner: Object
    path: FieldPath

    @cached_property
    def value(self) -> Mapping[str, Any]:
        """The template: `metadata` and `spec`."""
        return mapping(self.owner.value, *self.path)

    @property
    def namespace(self) -> str | None:
        """The owner's."""
        return self.owner.namespace

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pods."""
        return texts(self.value, "metadata", "labels")

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        """The pod's spec."""
        return mapping(self.value, "spec")

    @property
    def replicas(self) -> int | None:
        """How many there are, where the owner says so."""
        return whole(self.owner.value, "spec", "replicas")

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Every container, init containers first."""
        return tuple(
            Container(item, (*self.path, *path), part == "initContainers")
            for part in ("initContainers", "containers")
            for path, item in items(self.value, "spec", part)
            if isinstance(item, Mapping)
        )

    def at(self, *path: str | int) -> FieldPath:
        """The path of a field of the pod's spec, from the owner's top."""
        return (*self.path, "spec", *path)


@dataclass(frozen=True, eq=False)
class TenantValues:
    """vcluster.yaml values of a tenant cluster: a file of its own, or the text in a VirtualClusterTemplate.

    Holes of the Platform are `Hole`s. `parameters` are the variables that the template version declares; None for a
    file, where nobody declares any.
    """

    document: Document
    value: Mapping[str, Any]
    template: Object | None = None
    path: FieldPath = ()
    """Where the text stands in the template."""
    parameters: tuple[Mapping[str, Any], ...] | None = None
    profile: str | None = None

    @property
    def file(self) -> str:
        """Where it stands."""
        return self.document.file

    @property
    def title(self) -> str:
        """The template's, or nothing."""
        return self.template.title if self.template else ""

    def line(self, path: FieldPath = ()) -> int:
        """The line in the file of a field of the values."""
        return self.document.line(path)

    @property
    def has_private_nodes(self) -> bool:
        """Whether the tenant cluster brings nodes of its own."""
        return mapping(self.value, "privateNodes").get("enabled") is True


@dataclass(frozen=True, eq=False)
class World:
    """Everything below the linted paths."""

    objects: tuple[Object, ...]
    tenants: tuple[TenantValues, ...]
    documents: tuple[Document, ...]
    catalog: Catalog
    kubernetes: tuple[int, int]
    """Version of the API server that the objects are meant for, such as (1, 34)."""
    baseline: tuple[Object, ...] = ()
    """What is published already."""
    charts: tuple[Chart, ...] = ()
    """The Helm charts."""
    oddities: tuple[Oddity, ...] = ()
    """What is wrong with files and texts themselves."""
    renditions: tuple[Rendition, ...] = ()
    """What the templates among the files make; each is a world of its own."""
    files: frozenset[str] = frozenset()
    """Every file below the linted paths, whatever it is, named like `Object.file`; empty where nobody looked."""

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Object]]:
        found: dict[str, list[Object]] = {}
        for value in self.objects:
            found.setdefault(value.kind, []).append(value)
        return found

    def of_kind(self, *kinds: str) -> Iterator[Object]:
        """All objects of some kinds, whatever their group or version."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    def has(self, kind: str) -> bool:
        """Whether there is any object of the kind. A reference to a kind of which there is none is no finding."""
        return kind in self._by_kind

    def find(self, kind: str, name: str, *, namespace: str | None = None) -> Object | None:
        """The object of that name in the same namespace, None where there is none."""
        named = self._named.get((kind, name), {})
        if namespace is None:
            return next(iter(named.values()), None)
        return named.get(namespace) or named.get(None)

    @cached_property
    def _named(self) -> Mapping[tuple[str, str], Mapping[str | None, Object]]:
        found: dict[tuple[str, str], dict[str | None, Object]] = {}
        for value in self.objects:
            found.setdefault((value.kind, value.name), {}).setdefault(value.namespace, value)
        return found

    @cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """Every pod template, whatever owns it; a KubeRay or KServe object's are the owner's business."""
        return tuple(
            PodTemplate(owner, path)
            for kind, paths in POD_TEMPLATES.items()
            for owner in self.of_kind(kind)
            for path in paths
            if not path or mapping(owner.value, *path)
        )

    @cached_property
    def _pods_by_label(self) -> Mapping[tuple[str, str], Sequence[PodTemplate]]:
        found: dict[tuple[str, str], list[PodTemplate]] = {}
        for pod in self.pods:
            for label in pod.labels.items():
                found.setdefault(label, []).append(pod)
        return found

    @cached_property
    def _pods_by_place(self) -> Mapping[tuple[str | None, tuple[str, str]], Sequence[PodTemplate]]:
        """By namespace and label: namespaces made from one template have the same labels again and again."""
        found: dict[tuple[str | None, tuple[str, str]], list[PodTemplate]] = {}
        for label, pods in self._pods_by_label.items():
            for pod in pods:
                found.setdefault((pod.namespace, label), []).append(pod)
        return found

    def pods_of(self, labels: Mapping[str, str], *, namespace: str | None) -> Iterator[PodTemplate]:
        """The pod templates whose labels include all of `labels`; every one of the namespace for an empty mapping."""
        if not labels:
            yield from self.pods_in(namespace)
            return
        for pod in min((self._labelled(label, namespace) for label in labels.items()), key=len):
            if labels.items() <= pod.labels.items():
                yield pod

    def _labelled(self, label: tuple[str, str], namespace: str | None) -> Sequence[PodTemplate]:
        if namespace is None:
            return self._pods_by_label.get(label, ())
        return (*self._pods_by_place.get((namespace, label), ()), *self._pods_by_place.get((None, label), ()))

    @cached_property
    def _pods_by_namespace(self) -> Mapping[str | None, Sequence[PodTemplate]]:
        found: dict[str | None, list[PodTemplate]] = {}
        for pod in self.pods:
            found.setdefault(pod.namespace, []).append(pod)
        return found

    def pods_in(self, namespace: str | None) -> Sequence[PodTemplate]:
        """The pod templates that are, or may be, in a namespace."""
        if namespace is None:
            return self.pods
        index = self._pods_by_namespace
        return (*index.get(namespace, ()), *index.get(None, ()))

    @cached_property
    def schemas(self) -> Schemas:
        """The strict schemas of all kinds that are known here."""
        from provisioner.lint.schemas import Schemas, custom_schemas, shipped_schemas

        custom = custom_schemas(self.of_kind("CustomResourceDefinition"))
        return Schemas(self.kubernetes, custom) if custom else shipped_schemas(self.kubernetes)

    @cached_property
    def schema_problems(self) -> Sequence[tuple[Object | TenantValues, Sequence[Problem]]]:
        """The objects and values that do not fit their schema, and what is wrong with each."""
        found: list[tuple[Object | TenantValues, Sequence[Problem]]] = []
        found += [(one, tuple(self.schemas.problems(one))) for one in self.objects]
        found += [(one, tuple(self.schemas.tenant_problems(one))) for one in self.tenants]
        return [(one, problems) for one, problems in found if problems]


def same_namespace(one: str | None, other: str | None) -> bool:
    """Whether two namespaces are, or may be, the same: None is left to whoever applies."""
    return one is None or other is None or one == other
