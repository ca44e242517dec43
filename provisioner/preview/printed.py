"""A report in the form in which it is printed, and kept for the next time: text, and tables for a terminal. Pure.

Made from a report by `printed`; `packed` and `unpacked` carry it through a cache. Loads what makes it only when it is
made, so that the command line starts fast and a kept one is printed at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from provisioner.preview.threshold import FailOn

if TYPE_CHECKING:
    from provisioner.preview.report import ObjectChange, Report
    from provisioner.preview.rows import Row


class Output(StrEnum):
    """How a report is printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. A style is a colour for a whole row, where there are colours."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    styles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Printed:
    """Text, the tables below it, and the exit code."""

    status: int
    text: str
    tables: tuple[Table, ...] = ()


def printed(report: Report, output: Output, fail_on: FailOn) -> Printed:
    """The report in one of its forms."""
    from provisioner.preview.verdict import exit_code

    status = exit_code(report, fail_on)
    if output is Output.JSON:
        from provisioner.preview.document import report_document

        document = report_document(report, exit_code=status)
        return Printed(status, json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False))
    if output is Output.MARKDOWN:
        from provisioner.preview.markdown import report_markdown

        return Printed(status, report_markdown(report, exit_code=status))
    return Printed(status, "\n".join(_head(report)), tuple(_tables(report)))


def packed(form: Printed) -> bytes:
    """What `unpacked` reads."""
    return json.dumps(asdict(form)).encode()


def unpacked(data: bytes) -> Printed:
    """A form that was packed."""
    held = json.loads(data)
    tables = (
        Table(
            table["title"], tuple(table["columns"]), tuple(tuple(row) for row in table["rows"]), tuple(table["styles"])
        )
        for table in held["tables"]
    )
    return Printed(held["status"], held["text"], tuple(tables))


def changes_table(title: str, changes: Iterable[ObjectChange]) -> Iterator[Table]:
    """Objects and their fields that differ, as a report has them; no table where there are none."""
    from provisioner.preview import rows

    yield from _table(title, rows.CHANGE_TITLES, list(rows.object_rows(changes)))


def _head(report: Report) -> Iterator[str]:
    from provisioner.preview import phrases

    yield f"{report.base} -> {report.head}: {phrases.headline(report)}"
    yield phrases.basis(report)
    yield from phrases.uncovered(report)
    if report.findings.unchanged:
        yield f"{phrases.count(len(report.findings.unchanged), 'finding')} on both sides"


def _tables(report: Report) -> Iterator[Table]:
    """What happens first, then why; tables and columns that would be empty are left out."""
    from provisioner.preview import rows

    failures, findings = list(rows.failure_rows(report)), list(rows.finding_rows(report))
    titles = ("tier", "unit", "side", "why")
    yield from _table("not rendered", titles, failures, styles=["red"] * len(failures))
    yield from _table("what happens to endpoints", rows.EFFECT_TITLES, list(rows.effect_rows(report)))
    yield from _table("GPUs while both revisions run", rows.CAPACITY_TITLES, list(rows.capacity_rows(report)))
    styles = [_SEVERITIES.get(row.cells[1], "") if row.cells[0] == "new" else "green" for row in findings]
    yield from _table("findings", ("state", "severity", "rule", "message"), findings, styles=styles)
    for tier, changes in rows.change_rows(report):
        yield from _table(f"changes of {tier}", rows.CHANGE_TITLES, changes)


_SEVERITIES: Mapping[str, str] = {"error": "red", "warning": "yellow"}
_EFFECTS = ("", "green", "yellow", "red", "red", "bold red", "bold red")
"""By how bad an effect is."""


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Row], *, styles: Sequence[str] | None = None
) -> Iterator[Table]:
    if rows:
        kept = [at for at in range(len(columns)) if any(row.cells[at] for row in rows)]
        cells = tuple(tuple("  " * row.depth * (at == 0) + row.cells[at] for at in kept) for row in rows)
        colours = [_EFFECTS[row.effect] for row in rows] if styles is None else styles
        yield Table(title, tuple(columns[at] for at in kept), cells, tuple(colours))
