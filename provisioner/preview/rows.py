"""A report as rows of cells: what a terminal makes its tables of. Pure; colours and widths are the command line's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from provisioner.domain.finding import Finding
from provisioner.preview import phrases
from provisioner.preview.effect import Effect
from provisioner.preview.report import FieldChange, ObjectChange, Report


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of one row; `effect` is what a colour may tell, `depth` how far it is indented."""

    cells: tuple[str, ...]
    effect: Effect = Effect.NOTHING
    depth: int = 0


_LINES, _WIDTH = 2, 120
"""Of a value, as much as a cell of a table can hold."""
EFFECT_TITLES = ("effect", "tier", "endpoints", "pods", "load time", "gap", "tenants", "why")
CAPACITY_TITLES = ("node type", "endpoints", "all at once", "largest", "free", "")
CHANGE_TITLES = ("object", "effect", "where")


def effect_rows(report: Report) -> Iterator[Row]:
    """What happens to endpoints, the worst first: cells as in EFFECT_TITLES."""
    groups = [group for tier in report.tiers for group in tier.groups]
    for group in sorted(groups, key=lambda group: (-group.effect, group.tier, -group.endpoints)):
        cells = (
            phrases.outcome(group.effect, group.reach),
            group.tier,
            f"{group.endpoints:,}",
            f"{group.pods:,}" if group.pods else "",
            phrases.loads(group),
            phrases.gap(group),
            phrases.tenants(group),
            phrases.because(group),
        )
        yield Row(cells, group.effect)


def capacity_rows(report: Report) -> Iterator[Row]:
    """GPUs that both revisions take at once: cells as in CAPACITY_TITLES."""
    for need in report.capacity:
        free = "unknown" if need.free_gpus is None else f"{need.free_gpus:,}"
        cells = (need.node_type, f"{need.endpoints:,}", f"{need.all_gpus:,}", f"{need.largest_gpus:,}", free)
        yield Row((*cells, phrases.room(need)), Effect.PODS_RESTART if need.replaced else Effect.NOTHING)


def change_rows(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """Objects and fields that differ, by tier, the worst first: cells as in CHANGE_TITLES, fields one step deeper."""
    for tier in sorted(report.tiers, key=lambda tier: (-tier.effect, tier.name)):
        if shown := [change for change in tier.changes if change.is_shown]:
            state = f" ({tier.state})" if tier.state != "changed" else ""
            is_whole = tier.state in ("added", "removed")
            yield f"{tier.name}{state}", _whole_rows(shown) if is_whole else list(object_rows(shown))


def object_rows(changes: Iterable[ObjectChange]) -> Iterator[Row]:
    """Objects, each with the fields that differ one step deeper: cells as in CHANGE_TITLES."""
    for change in changes:
        yield Row((str(change), phrases.change_outcome(change), phrases.places(change.where)), change.effect)
        for field in change.fields:
            if field.path:
                cells = (field.path, phrases.outcome(field.effect, field.reach), _became(field))
                yield Row(cells, field.effect, depth=1)


def _whole_rows(changes: Sequence[ObjectChange]) -> list[Row]:
    """Objects of a tier that comes or goes as a whole: what each of them does by itself is beside the point."""
    return [Row((str(change), "", phrases.places(change.where))) for change in changes]


def _became(field: FieldChange) -> str:
    """`16Gi -> 20Gi`; `absent` for what is not there."""
    before, after = (_on_one_line(value) for value in (field.before, field.after))
    return f"{before} -> {after}"


def _on_one_line(value: str | None) -> str:
    if value is None:
        return "absent"
    lines = value.split("\n")
    text = " ⏎ ".join(line.strip() for line in lines) if len(lines) <= _LINES else f"({len(lines)} lines)"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def finding_rows(report: Report) -> Iterator[Row]:
    """Findings that are new, then those that are fixed: what became of it, severity, rule, message and hint."""
    for state, found in (("new", report.findings.new), ("fixed", report.findings.fixed)):
        for one in found:
            told = f"{one.finding.message}{_hint(one.finding)}"
            yield Row((state, one.finding.severity.value, one.finding.rule, told))


def failure_rows(report: Report) -> Iterator[Row]:
    """What could not be rendered: tier, unit and how many more, side, why."""
    for tier in report.tiers:
        for failure in tier.failures:
            many = f" and {failure.units - 1:,} more" if failure.units > 1 else ""
            for finding in failure.findings:
                yield Row((tier.name, f"{failure.example}{many}", failure.side, f"{finding}{_hint(finding)}"))


def _hint(finding: Finding) -> str:
    return f" ({finding.hint})" if finding.hint else ""
