"""CustomResourceDefinitions by themselves, and objects of their groups that they do not define."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, text
from provisioner.lint.world import World

_KIND = "CustomResourceDefinition"


@rule("definition-misnamed", Severity.ERROR)
def definition_misnamed(world: World) -> Iterator[Hit]:
    """A definition of a custom resource is not called after what it defines.

    Its name must be `<plural>.<group>`; the API server refuses any other.
    """
    for found in world.of_kind(_KIND):
        plural, group = text(found.value, "spec", "names", "plural"), text(found.value, "spec", "group")
        if plural and group and found.name and found.name != f"{plural}.{group}":
            message = f"naming definition: it defines {shown(f'{plural}.{group}')}, its name is {shown(found.name)}"
            yield Hit(at=found, path=("metadata", "name"), message=message, fix=f"write {plural}.{group}")


@rule("definition-storage-versions", Severity.ERROR)
def definition_storage_versions(world: World) -> Iterator[Hit]:
    """A definition stores its objects in several versions, or in none.

    Exactly one version has `storage: true`; the API server refuses everything else.
    """
    for found in world.of_kind(_KIND):
        versions = [item for _, item in items(found.value, "spec", "versions")]
        stored = [text(item, "name") for item in versions if look(item, "storage") is True]
        if versions and len(stored) != 1:
            message = f"defining versions: exactly one is stored, found {shown(', '.join(map(str, stored)) or 'none')}"
            yield Hit(at=found, path=("spec", "versions"), message=message, fix="set storage: true for one version")


@rule("custom-kind-misspelt", Severity.ERROR)
def custom_kind_misspelt(world: World) -> Iterator[Hit]:
    """An object is of a kind that its group does not define, almost one that it does.

    The folder holds the definitions of the group, and the kind is in none of them: `no matches for kind`.
    """
    kinds: dict[str, set[str]] = {}
    for found in world.of_kind(_KIND):
        group, kind = text(found.value, "spec", "group"), text(found.value, "spec", "names", "kind")
        if group and kind:
            kinds.setdefault(group, set()).add(kind)
    for found in world.objects if kinds else ():
        known = kinds.get(found.group)
        if known and found.kind and found.kind not in known and found.kind.removesuffix("List") not in known:
            near = nearest_name(found.kind, known)
            if near:
                message = f"reading kind: {found.group} defines no {shown(found.kind)}"
                yield Hit(at=found, path=("kind",), message=message, fix=f"did you mean {near}?")
