"""Prints the report of a preview for people: what happens to endpoints first, then why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.cli.output import print_table
from provisioner.preview import phrases
from provisioner.preview.effect import Effect
from provisioner.preview.report import Report
from provisioner.preview.rows import (
    CAPACITY_TITLES,
    CHANGE_TITLES,
    EFFECT_TITLES,
    Row,
    capacity_rows,
    change_rows,
    effect_rows,
    failure_rows,
    finding_rows,
)

_STYLES: Mapping[Effect, str] = {
    Effect.NOTHING: "",
    Effect.NEW_VERSION: "green",
    Effect.CONFIG_RELOAD: "yellow",
    Effect.PODS_RESTART: "red",
    Effect.NODES_REPLACED: "red",
    Effect.TENANT_RECREATED: "bold red",
    Effect.DATA_LOST: "bold red",
}
_SEVERITIES: Mapping[str, str] = {"error": "red", "warning": "yellow"}


def print_report(report: Report) -> None:
    """The report as tables; sections that would be empty are left out."""
    print(f"{report.base} -> {report.head}: {phrases.headline(report)}")
    print(phrases.basis(report))
    failures, findings = list(failure_rows(report)), list(finding_rows(report))
    _section("not rendered", ("tier", "unit", "side", "why"), failures, styles=["red"] * len(failures))
    _section("what happens to endpoints", EFFECT_TITLES, list(effect_rows(report)))
    _section("GPUs while both revisions run", CAPACITY_TITLES, list(capacity_rows(report)))
    _section(
        "findings",
        ("state", "severity", "rule", "message"),
        findings,
        styles=[_SEVERITIES.get(row.cells[1], "") if row.cells[0] == "new" else "green" for row in findings],
    )
    if report.findings.unchanged:
        print(f"\n{phrases.count(len(report.findings.unchanged), 'finding')} on both sides")
    for tier, rows in change_rows(report):
        _section(f"changes of {tier}", CHANGE_TITLES, rows)


def _section(title: str, columns: Sequence[str], rows: Sequence[Row], *, styles: Sequence[str] | None = None) -> None:
    if rows:
        print(f"\n{title}")
        cells = [("  " * row.depth + row.cells[0], *row.cells[1:]) for row in rows]
        print_table(columns, cells, styles=[_STYLES[row.effect] for row in rows] if styles is None else styles)
