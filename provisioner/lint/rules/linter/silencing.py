"""The linter itself: entries that silence, and rules that fail."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, unknown_name_hint
from provisioner.lint.rule import Hit, rule
from provisioner.lint.silence import silences
from provisioner.lint.world import World


@rule("silence-without-reason", Severity.WARNING)
def without_reason(world: World) -> Iterator[Hit]:
    """A rule is silenced without a reason.

    Whoever reads the manifest later has to know why the finding is no mistake there. The entry has no effect until it
    says so: `lint.tenantry.io/ignore: "<rule-id>: <reason>"`.
    """
    for silence in silences(world):
        if not silence.reason:
            message = f"silencing rule {shown(silence.rule)}: no reason given"
            yield Hit(at=silence.at, path=silence.path, message=message, fix=f'write "{silence.rule}: <reason>"')


@rule("silence-unknown-rule", Severity.WARNING)
def unknown_rule(world: World) -> Iterator[Hit]:
    """An id is silenced that no rule has.

    A misspelt id silences nothing, so the finding it was meant for is still there, or comes back with the next mistake.
    """
    from provisioner.lint.rules import every_rule

    known = {found.id for found in every_rule()}
    for silence in silences(world):
        if silence.rule not in known:
            message = f"silencing rule: no such rule: {shown(silence.rule)}"
            hint = unknown_name_hint(silence.rule, known).partition("allowed:")[0].strip()
            yield Hit(at=silence.at, path=silence.path, message=message, fix=hint or "remove the entry")


@rule("silence-of-nothing", Severity.INFO)
def of_nothing(_world: World) -> Iterator[Hit]:
    """A rule is silenced where it finds nothing.

    The mistake was mended, or the entry stands on the wrong object. Left there, it would hide the next one. The engine
    reports it, since it alone knows what was found.
    """
    yield from ()


@rule("rule-failed", Severity.WARNING)
def rule_failed(_world: World) -> Iterator[Hit]:
    """A rule of the linter itself failed, so what it looks for was not looked for everywhere.

    That is a bug of the linter, brought out by a value that nobody thought of. All other rules were checked. The engine
    reports it.
    """
    yield from ()
