"""Names that a kustomization changes and that nothing follows: prefixes, suffixes, and the hashes of generators. Pure.

kustomize follows changed names in the fields that its built-in configuration lists, those of built-in kinds and the
backends of HTTPRoutes. Custom kinds keep the old names unless `configurations` say more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.lint.document import Document
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import POD_TEMPLATES, Object

_TAUGHT = ("configurations", "transformers", "replacements", "vars", "crds", "openapi")
"""Fields by which a kustomization may change names of its own accord."""
_SCALED = ("Deployment", "StatefulSet")
_NAMED: Mapping[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "ScaledObject": ((("spec", "scaleTargetRef", "name"), _SCALED),),
    "TriggerAuthentication": ((("spec", "secretTargetRef", "*", "name"), ("Secret",)),),
    "ExternalSecret": ((("spec", "secretStoreRef", "name"), ("SecretStore",)),),
    "Certificate": ((("spec", "issuerRef", "name"), ("Issuer",)),),
    "HTTPRoute": ((("spec", "parentRefs", "*", "name"), ("Gateway",)),),
    "GRPCRoute": (
        (("spec", "parentRefs", "*", "name"), ("Gateway",)),
        (("spec", "rules", "*", "backendRefs", "*", "name"), ("Service",)),
    ),
    "InferencePool": ((("spec", "endpointPickerRef", "name"), ("Service",)),),
    "LocalQueue": ((("spec", "clusterQueue"), ("ClusterQueue",)),),
}
_OF_PODS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("volumes", "*", "configMap", "name"), "ConfigMap"),
    (("volumes", "*", "secret", "secretName"), "Secret"),
    (("volumes", "*", "persistentVolumeClaim", "claimName"), "PersistentVolumeClaim"),
    (("containers", "*", "envFrom", "*", "configMapRef", "name"), "ConfigMap"),
    (("containers", "*", "envFrom", "*", "secretRef", "name"), "Secret"),
    (("containers", "*", "env", "*", "valueFrom", "configMapKeyRef", "name"), "ConfigMap"),
    (("containers", "*", "env", "*", "valueFrom", "secretKeyRef", "name"), "Secret"),
    (("serviceAccountName",), "ServiceAccount"),
)


def lost_references(document: Document, found: Sequence[Object]) -> Iterator[tuple[FieldPath, str, str]]:
    """References by old names: where the renaming stands, what is wrong, and what to do."""
    value = document.value
    if any(look(value, name) for name in _TAUGHT):
        return
    affix = _affix(value)
    where: dict[tuple[str, str], FieldPath] = {(one.kind, one.name): (affix,) for one in found} if affix else {}
    where |= dict(_hashed(value))
    for one in found if where else ():
        for kind, name in _names(one):
            if (kind, name) in where:
                new = f"{look(value, 'namePrefix') or ''}{name}{look(value, 'nameSuffix') or ''}"
                new = new if new != name else f"{name}-<hash>"
                message = f"renaming {kind} {shown(name)} to {shown(new)}: {one.title} keeps the old name"
                fix = "teach kustomize the field by `configurations`, or leave this name as it is"
                if new.endswith("-<hash>"):
                    fix = "set `disableNameSuffixHash: true`, or teach kustomize the field by `configurations`"
                yield where[(kind, name)], message, fix


def _affix(value: Any) -> str:
    """The field that changes all names, empty where there is none."""
    return next((name for name in ("namePrefix", "nameSuffix") if text(value, name)), "")


def _hashed(value: Any) -> Iterator[tuple[tuple[str, str], FieldPath]]:
    """ConfigMaps and Secrets that get a hash, and where they are generated."""
    if look(value, "generatorOptions", "disableNameSuffixHash") is True:
        return
    for field, kind in (("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")):
        for path, item in items(value, field):
            name = text(item, "name")
            is_made_here = look(item, "behavior") in (None, "create")
            if name and is_made_here and look(item, "options", "disableNameSuffixHash") is not True:
                yield (kind, name), path


def _names(found: Object) -> Iterator[tuple[str, str]]:
    """Kind and name of what an object of a custom kind names."""
    for path, kinds in _NAMED.get(found.kind, ()):
        for name in _texts(found.value, path):
            yield from ((kind, name) for kind in kinds)
    if found.kind == "LeaderWorkerSet":
        for place in POD_TEMPLATES[found.kind]:
            spec = mapping(found.value, *place, "spec")
            for path, kind in _OF_PODS:
                yield from ((kind, name) for name in _texts(spec, path))


def _texts(value: Any, path: Sequence[str]) -> Iterator[str]:
    """The texts at a path, in which `*` stands for each item of a list."""
    if not path:
        if isinstance(value, str):
            yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _texts(item, path[1:])
    elif isinstance(value, dict):
        yield from _texts(value.get(path[0]), path[1:])
