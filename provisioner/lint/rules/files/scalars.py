"""Plain scalars whose values change from reader to reader, or when they are printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.document import Disagreement
from provisioner.lint.rule import Hit, rule
from provisioner.lint.scalars import Doubt
from provisioner.lint.world import Object, TenantValues, World

_MODES = re.compile(r"(.*[mM]ode|umask)")
_VERSIONS = re.compile(r"(.*(version|tag|revision|commit|digest|release)|(.*[_-])?id)", re.IGNORECASE)


@rule("yaml-boolean-word", Severity.WARNING)
def boolean_word(world: World) -> Iterator[Hit]:
    """A plain `yes`, `no`, `on`, `off`, `y` or `n` stands as a value.

    YAML 1.1 readers, among them `kubectl` and Helm, make a boolean of it; YAML 1.2 readers, such as those of Pulumi,
    JavaScript and Rust, keep the text. Norway's `no` is the well-known victim.
    """
    for at, found in _doubtful(world, Doubt.BOOLEAN):
        if not found.is_key:
            meant = json.dumps(found.reading.value)
            message = f"reading value: {shown(found.text)} is {meant} to some readers and a text to others"
            yield Hit(at=at, path=found.path, message=message, fix=f'write `{meant}`, or `"{found.text}"` for the text')


@rule("yaml-key-changes", Severity.WARNING)
def key_changes(world: World) -> Iterator[Hit]:
    """A plain key is no text to YAML and becomes another one.

    Keys in Kubernetes are texts. `on:`, `y:` and `no:` become `true` and `false`, `0644:` becomes `420`, and what looks
    for the key as it was written does not find it.
    """
    for doubt in (Doubt.BOOLEAN, Doubt.NUMBER, Doubt.FORM):
        for at, found in _doubtful(world, doubt):
            if found.is_key:
                message = f"reading key: {shown(found.text)} becomes {shown(str(found.path[-1]))}"
                yield Hit(at=at, path=found.path, message=message, fix=f'quote it: "{found.text}"')


@rule("yaml-number-form", Severity.WARNING)
def number_form(world: World) -> Iterator[Hit]:
    """A number is written in a form that readers understand differently: `0644`, `1_000`, `1e3`.

    A leading zero means octal to YAML 1.1 and nothing to YAML 1.2; underscores and exponents without a sign make a text
    to some. File modes are left out: everybody writes them in octal, and clients of Kubernetes read them so.
    """
    for at, found in _doubtful(world, Doubt.NUMBER):
        if not found.is_key and not _MODES.fullmatch(str(found.path[-1] if found.path else "")):
            message = (
                f"reading value: {shown(found.text)} is {found.reading.value:g} here, and something else elsewhere"
            )
            fix = f'write `{found.reading.value:g}`, or `"{found.text}"` for the text'
            yield Hit(at=at, path=found.path, message=message, fix=fix)


@rule("yaml-version-loses-form", Severity.WARNING)
def version_loses_form(world: World) -> Iterator[Hit]:
    """A version, tag or id is a plain number that is printed differently from how it is written.

    `1.10` is the number 1.1, `1.0` may become `1`, and a long id loses digits beyond 2^53 where numbers are floating
    point. Where a schema asks for a text the API server refuses it; in Helm values and parameters nobody notices.
    """
    for at, found in _doubtful(world, Doubt.FORM):
        name = next((part for part in reversed(found.path) if isinstance(part, str)), "")
        if not found.is_key and _VERSIONS.fullmatch(name):
            message = f"reading {name}: {shown(found.text)} is a number and may be printed as another text"
            yield Hit(at=at, path=found.path, message=message, fix=f'quote it: "{found.text}"')


@rule("yaml-time-form", Severity.INFO)
def time_form(world: World) -> Iterator[Hit]:
    """A plain value looks like a time or a date.

    It is a text to clients of Kubernetes. Readers in other languages make a time of `2026-01-31`, and the number of
    seconds of `12:30:00`.
    """
    for at, found in _doubtful(world, Doubt.TIME):
        message = f"reading value: {shown(found.text)} is a time or a number to some readers"
        yield Hit(at=at, path=found.path, message=message, fix=f'quote it: "{found.text}"')


def _doubtful(world: World, doubt: Doubt) -> Iterator[tuple[Object | TenantValues, Disagreement]]:
    """Scalars of one doubt that no schema has refused already."""
    refused = {(id(one), problem.path) for one, problems in world.schema_problems for problem in problems}
    everything: tuple[Object | TenantValues, ...] = (*world.objects, *world.tenants)
    for at in everything:
        for found in at.document.disagreements:
            if found.reading.doubt is doubt and (id(at), found.path) not in refused:
                yield at, found
