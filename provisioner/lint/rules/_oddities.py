"""From what reading noted to hits; the rules that report it live beside this module."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.lint.rule import Hit
from provisioner.lint.world import World


def hits(world: World, rule: str) -> Iterator[Hit]:
    """Everything that reading noted for a rule."""
    for oddity in world.oddities:
        if oddity.rule == rule:
            yield Hit(at=oddity, path=oddity.path, message=oddity.message, fix=oddity.fix)
