"""Which of several things of one name another file means: the one whose folder is nearest.

A repository often holds one folder per environment with the same names in each. Two that are equally near are not told
apart. No rules stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from provisioner.lint.world import Object, World

Thing = TypeVar("Thing")


def nearest(world: World, kind: str, name: str | None, *, to: str) -> Object | None:
    """The object of a kind and name that a file means, None where there is none or that cannot be told."""
    return choose(_named(world).get((kind, name or ""), ()), file_of=lambda value: value.file, to=to)


def choose(candidates: Sequence[Thing], *, file_of: Callable[[Thing], str], to: str) -> Thing | None:
    """The candidate whose file is nearest to another one."""
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    folders = to.split("/")[:-1]
    near = [(_shared(file_of(candidate).split("/")[:-1], folders), candidate) for candidate in candidates]
    best = max(score for score, _ in near)
    found = [candidate for score, candidate in near if score == best]
    is_one_folder = len({file_of(candidate).rpartition("/")[0] for candidate in found}) == 1
    return found[0] if is_one_folder else None


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


@lru_cache(maxsize=1)
def _named(world: World) -> Mapping[tuple[str, str], list[Object]]:
    found: dict[tuple[str, str], list[Object]] = {}
    for value in world.objects:
        if value.group.endswith("loft.sh"):
            found.setdefault((value.kind, value.name), []).append(value)
    return found
