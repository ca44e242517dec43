"""What is published already and may not change any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, text
from provisioner.lint.world import Object, World
from provisioner.rendering.diff import differences

_KINDS = ("VirtualClusterTemplate", "SpaceTemplate", "StackTemplate")
_SHOWN = 3


@rule("published-version-changed", Severity.ERROR)
def version_changed(world: World) -> Iterator[Hit]:
    """A template version that is published already differs from what was published.

    Tenant clusters refer to a version by its number and follow it. Changing it in place changes running tenants at
    once, and later ones get something else under the same number. Versions are only ever added.
    """
    for found, before in _published(world):
        now = _versions(found)
        for number, (_, old) in _versions(before).items():
            path, new = now.get(number, ((), old))
            changed = [str(one) for one in islice(differences(old, new), _SHOWN + 1)]
            if changed:
                more = ", and more" if len(changed) > _SHOWN else ""
                said = "; ".join(changed[:_SHOWN])[:400]
                message = f"changing {found.title}: version {shown(number)} is published: {said}{more}"
                yield Hit(at=found, path=path, message=message, fix="leave it as it is and add a version")


@rule("published-version-removed", Severity.WARNING)
def version_removed(world: World) -> Iterator[Hit]:
    """A template version that is published already is gone.

    Tenant clusters that name it can no longer be rendered (`VersionNotFound`), so their next change fails.
    """
    for found, before in _published(world):
        for number in _versions(before).keys() - _versions(found).keys():
            message = f"changing {found.title}: the published version is gone: {shown(number)}"
            fix = "keep it until no tenant cluster names it"
            yield Hit(at=found, path=("spec", "versions"), message=message, fix=fix)


def _published(world: World) -> Iterator[tuple[Object, Object]]:
    """Templates that are published, as they are now and as they were."""
    before: Mapping[tuple[str, str], Object] = {(found.kind, found.name): found for found in world.baseline}
    for found in world.of_kind(*_KINDS):
        old = before.get((found.kind, found.name))
        if old is not None:
            yield found, old


def _versions(found: Object) -> dict[str, tuple[FieldPath, Any]]:
    versions: Sequence[tuple[FieldPath, Any]] = list(items(found.value, "spec", "versions"))
    return {number: (path, version) for path, version in versions if (number := text(version, "version"))}
