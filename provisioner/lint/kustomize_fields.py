"""What the file of a kustomization may say: its fields, those that kustomize gave up, and what it builds upon. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import unknown_name_hint
from provisioner.lint.document import Document
from provisioner.lint.values import items

_FIELDS = frozenset(
    {
        *("apiVersion", "kind", "metadata", "resources", "bases", "components", "crds", "namespace", "namePrefix"),
        *("nameSuffix", "commonLabels", "commonAnnotations", "labels", "patches", "patchesStrategicMerge"),
        *("patchesJson6902", "images", "replicas", "replacements", "vars", "configMapGenerator", "secretGenerator"),
        *("generatorOptions", "generators", "transformers", "validators", "configurations", "openapi", "helmCharts"),
        *("helmGlobals", "helmChartInflationGenerator", "inventory", "buildMetadata", "sortOptions", "imageTags"),
    }
)
"""From the reference of kustomization files (kubectl.docs.kubernetes.io/references/kustomize/kustomization)."""
_KNOWN = frozenset(name.lower() for name in _FIELDS)
"""Go reads the names of fields whatever their case."""
_REPLACED: Mapping[str, str] = {
    "bases": "list its entries under `resources`",
    "commonLabels": "use `labels` with `includeTemplates: true`, which leaves selectors alone",
    "helmChartInflationGenerator": "use `helmCharts`",
    "imageTags": "use `images` with `newTag`",
    "patchesJson6902": "use `patches`, with `target` and `patch` or `path`",
    "patchesStrategicMerge": "use `patches`, each file as `- path: …`, each text as `- patch: |-`",
    "vars": "use `replacements`",
}
"""What kustomize gave up, and what to do instead (its reference, and what `kustomize edit fix` does)."""


class FieldFault(NamedTuple):
    """A field that is wrong: the rule, where it stands, what is wrong and what to do."""

    rule: str
    path: FieldPath
    message: str
    fix: str


def field_faults(document: Document) -> Iterator[FieldFault]:
    """Fields that kustomize does not know or gave up, and paths that are listed twice."""
    yield from _literal_faults(document.value)
    seen = set()
    for path, written in listed(document.value):
        if written in seen:
            message = f"reading kustomization: it is listed twice: {shown(written)}"
            yield FieldFault("kustomization-resource-twice", path, message, "remove one of both")
        seen.add(written)
    for name in document.value if isinstance(document.value, Mapping) else ():
        if name in _REPLACED:
            rule = "kustomization-common-labels" if name == "commonLabels" else "kustomization-field-deprecated"
            message = f"reading kustomization: the field is deprecated: {shown(name)}"
            yield FieldFault(rule, (name,), message, _REPLACED[name])
        if name.lower() not in _KNOWN:
            message = f"reading kustomization: unknown field {shown(name)}"
            fix = unknown_name_hint(name, _FIELDS).partition("allowed:")[0].strip() or "remove it"
            yield FieldFault("kustomization-unknown-field", (name,), message, fix)


def _literal_faults(value: Any) -> Iterator[FieldFault]:
    """Literals of generators that have no value."""
    for field in ("configMapGenerator", "secretGenerator"):
        for path, item in items(value, field):
            for place, written in items(item, "literals"):
                if isinstance(written, str) and "=" not in written:
                    message = f"generating: a literal is `key=value`: {shown(written)}"
                    yield FieldFault("kustomization-literal-malformed", (*path, *place), message, f"write {written}=…")


def listed(value: Any) -> Iterator[tuple[FieldPath, str]]:
    """The paths of what a kustomization builds upon, components last."""
    for name in ("resources", "bases", "components"):
        for path, item in items(value, name):
            if isinstance(item, str):
                yield path, item
