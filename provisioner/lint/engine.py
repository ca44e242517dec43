"""Lints: reads the world, asks every rule, makes hits into findings, leaves out what somebody silenced with a reason.

The command line calls it. Of the rules it knows by name those about what only the engine sees, and those that a schema
speaks by: where another rule explains the same field, theirs is left out.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.catalog.fields import dotted
from provisioner.domain.finding import Finding, Severity
from provisioner.lint.pack_compiling import Plans, no_plans
from provisioner.lint.reading import read_world
from provisioner.lint.rule import Hit, Rule, Spot
from provisioner.lint.rules import every_rule
from provisioner.lint.rules.files.schema import BY_SCHEMA
from provisioner.lint.rules.linter.silencing import of_nothing, rule_failed
from provisioner.lint.silence import Silence, covers, silences
from provisioner.lint.world import World

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog


def lint_paths(
    paths: Sequence[Path],
    *,
    catalog: Catalog,
    kubernetes: tuple[int, int],
    baseline: Sequence[Path] = (),
    plans: Plans = no_plans,
) -> tuple[Finding, ...]:
    """Every finding about the files below some paths, by file, line and rule; `baseline` is published already, and
    `plans` tells which endpoints stand for a tier of a catalog folder."""
    with _no_collection():
        world = read_world(paths, catalog=catalog, kubernetes=kubernetes, baseline=baseline, plans=plans)
        return lint_world(world)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Spare a quarter of the time: a world is millions of values, none of them garbage before the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def lint_world(world: World) -> tuple[Finding, ...]:
    """Every finding about a world, and about what its templates make, that nobody silenced, by file, line and rule."""
    found = _found(world)
    made = [one for rendition in world.renditions for one in rendition.located(_found(rendition.world))]
    return tuple(_folded(_distinct(sorted([*found, *_once(made)], key=_order))))


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """What several cases of the same templates say of the same line, once."""
    told = set()
    for finding in findings:
        key = (finding.rule, finding.file, finding.line, finding.field)
        if key not in told:
            told.add(key)
            yield finding


def _found(world: World) -> list[Finding]:
    """Every finding about a world by itself that nobody silenced."""
    known = {rule.id for rule in every_rule()}
    valid = [silence for silence in silences(world) if silence.reason and silence.rule in known]
    by_rule: dict[str, list[Silence]] = {}
    for silence in valid:
        by_rule.setdefault(silence.rule, []).append(silence)
    used: set[int] = set()
    faults: list[Finding] = []
    hits = [
        (rule, hit)
        for rule in every_rule()
        for hit in _hits(rule, world, faults)
        if not _is_silenced(hit, by_rule.get(rule.id, ()), used)
    ]
    hits += [(of_nothing, hit) for hit in _idle(valid, used)]
    return list(_telling([*_findings(hits), *faults]))


def _hits(rule: Rule, world: World, faults: list[Finding]) -> Iterator[Hit]:
    """What a rule finds. A rule that stumbles over a value nobody thought of must not hide what all others find."""
    try:
        yield from rule.check(world)
    except Exception as error:
        message = f"checking rule `{rule.id}`: {type(error).__name__}: {error}"
        faults.append(_finding(rule_failed, Hit(at=Spot("", 1), message=message, fix="please report this bug")))


def _is_silenced(hit: Hit, entries: Sequence[Silence], used: set[int]) -> bool:
    about = [silence for silence in entries if covers(silence, hit.at)]
    used.update(map(id, about))
    return bool(about)


def _idle(valid: Sequence[Silence], used: set[int]) -> Iterator[Hit]:
    for silence in valid:
        if id(silence) not in used:
            message = f"silencing rule: it finds nothing here: `{silence.rule}`"
            yield Hit(at=silence.at, path=silence.path, message=message, fix="remove the entry")


def _findings(hits: Sequence[tuple[Rule, Hit]]) -> list[Finding]:
    """The findings in the order of the hits, made object by object: documents are read anew for lines, few are kept."""
    places = [(hit.at.file, hit.at.title) for _, hit in hits]
    made = {number: _finding(*hits[number]) for number in sorted(range(len(hits)), key=places.__getitem__)}
    return [made[number] for number in range(len(hits))]


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


def _telling(findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings without what a schema says of a field where another error says what is wrong with it, and why."""
    told = {
        (finding.file, finding.line, finding.field)
        for finding in findings
        if finding.severity is Severity.ERROR and finding.rule not in BY_SCHEMA
    }
    for finding in findings:
        if finding.rule not in BY_SCHEMA or (finding.file, finding.line, finding.field) not in told:
            yield finding


def _folded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Information that one rule has in the same words about many places is told at the first, with their number."""
    kept: dict[object, list[Finding]] = {}
    for finding in findings:
        key = (finding.rule, finding.message) if finding.severity is Severity.INFO else id(finding)
        kept.setdefault(key, []).append(finding)
    for first, *others in kept.values():
        places = f"{len(others)} other place{'s' * (len(others) > 1)}"
        yield replace(first, message=f"{first.message} (and at {places})") if others else first


def _distinct(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Each finding once, however many overlays build the object under another namespace."""
    seen = set()
    for finding in findings:
        key = (finding.rule, finding.file, finding.line, finding.field, finding.message)
        if key not in seen:
            seen.add(key)
            yield finding


def _order(finding: Finding) -> tuple[str, int, str, str, str]:
    return finding.file or "", finding.line or 0, finding.rule, finding.field, finding.message
