"""Lints: reads the world, asks every rule, makes hits into findings, leaves out what somebody silenced with a reason.

The command line calls it; it knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.catalog.fields import dotted
from provisioner.domain.finding import Finding
from provisioner.lint.reading import read_world
from provisioner.lint.rule import Hit, Rule
from provisioner.lint.rules import every_rule
from provisioner.lint.world import World

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog


def lint_paths(
    paths: Sequence[Path], *, catalog: Catalog, kubernetes: tuple[int, int], baseline: Sequence[Path] = ()
) -> tuple[Finding, ...]:
    """Every finding about the files below some paths, by file and line."""
    return lint_world(read_world(paths, catalog=catalog, kubernetes=kubernetes, baseline=baseline))


def lint_world(world: World) -> tuple[Finding, ...]:
    """Every finding about a world, by file, line and rule."""
    found = [_finding(rule, hit) for rule in every_rule() for hit in rule.check(world)]
    return tuple(dict.fromkeys(sorted(found, key=_order)))


def _finding(rule: Rule, hit: Hit) -> Finding:
    return Finding(
        reason=rule.id,
        message=hit.message,
        field=dotted(hit.path),
        hint=hit.fix,
        file=hit.at.file,
        line=hit.at.line(hit.path),
        severity=rule.severity,
        object=hit.at.title,
    )


def _order(finding: Finding) -> tuple[str, int, str, str, str]:
    return finding.file or "", finding.line or 0, finding.rule, finding.field, finding.message
