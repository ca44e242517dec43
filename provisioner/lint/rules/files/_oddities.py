"""From what reading noted to hits. Pure; no rules stand here.

Reading sees things that no value tells: bytes, indentation, links. It notes them under a rule's id, and the rules
beside this module, which hold severity and explanation, report them.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.lint.rule import Hit, Spot
from provisioner.lint.world import World


def hits(world: World, rule: str) -> Iterator[Hit]:
    """Everything that reading noted for a rule."""
    for oddity in world.oddities:
        if oddity.rule == rule:
            at = Spot(oddity.file, oddity.at_line)
            yield Hit(at=at, path=oddity.path, message=oddity.message, fix=oddity.fix)
