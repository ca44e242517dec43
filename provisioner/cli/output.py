"""How commands print: data to standard output, talk to standard error.

Data is a table for people or JSON for programs. On a terminal tables have colour; in a pipe they are aligned text
without colour, boxes or truncation. Errors are `error: …` lines followed by `hint: …` lines.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.domain.finding import Finding, Severity

if TYPE_CHECKING:
    from pydantic import BaseModel

    from provisioner.preview.printed import Table


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print data.")]


def visible(text: str) -> str:
    """The text as one line in which nothing steers a terminal or turns the direction of reading: such characters, which
    may stand in names of files and objects, become escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\t\xa0" else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def say(text: str) -> None:
    """Talk to the person, on standard error."""
    print(_visible_lines(text), file=sys.stderr, flush=True)


def print_json(data: object) -> None:
    """Data for programs: indented JSON with sorted keys."""
    print_text(json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, default=str))


def print_text(text: str) -> None:
    """Data as it is. Bytes of a file name that are no UTF-8 become escapes."""
    print(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, styles: Sequence[str] = ()) -> None:
    """Data for people: a coloured table on a terminal, aligned text in a pipe. `styles` colours whole rows."""
    cells = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich_table(columns, cells, styles)
        return
    for line in _aligned(columns, cells):
        print(line)


def print_tables(tables: Iterable[Table]) -> None:
    """Tables with a title each."""
    for table in tables:
        print(f"\n{visible(table.title)}")
        print_table(table.columns, table.rows, styles=table.styles)


def print_fields(fields: Mapping[str, object]) -> None:
    """One thing for people: a name and a value per line; nested mappings are indented."""
    for line in _field_lines(fields, ""):
        print(line)


def print_view(view: BaseModel, output: Format) -> None:
    """One thing: as it goes over the wire for programs, a name and a value per line for people."""
    if output is Format.JSON:
        print_json(view.model_dump(mode="json", by_alias=True))
    else:
        print_fields(view.model_dump(by_alias=True))


def print_error(error: TenantryError, *, file: str | None = None, lines: Mapping[str, int] | None = None) -> None:
    """`error: …` and `hint: …`; every finding of a rejected request, with file and line where known."""
    findings = error.findings if isinstance(error, RejectedError) else ()
    if not findings:
        say(f"error: {error.message}")
        if error.hint:
            say(f"hint: {error.hint}")
        return
    print_findings([located(finding, file, lines or {}) for finding in findings])


def print_findings(findings: Sequence[Finding]) -> None:
    """Findings for people, on standard error: severity, place, message and hint, by place."""
    for finding in sorted(findings, key=lambda finding: (finding.file or "", finding.line or 0)):
        print(f"{_severity(finding.severity)}: {visible(str(finding))}", file=sys.stderr, flush=True)
        if finding.hint:
            say(f"hint: {finding.hint}")


def _severity(severity: Severity) -> str:
    colour = {Severity.ERROR: 31, Severity.WARNING: 33, Severity.INFO: 36}[severity]
    return f"\x1b[{colour}m{severity}\x1b[0m" if sys.stderr.isatty() else str(severity)


def located(finding: Finding, file: str | None, lines: Mapping[str, int]) -> Finding:
    """A finding about a field, with the place of the field in the file that was read."""
    if finding.file or not file:
        return finding
    around = finding.field
    while around and around not in lines:
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    return replace(finding, file=file, line=lines.get(around, 1))


def _aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    lines = [[_heading(column) for column in columns], *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _as_table(items: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
    """A column per name that any item has a value for; the message, which may be long, stands last."""
    names = dict.fromkeys(name for item in items for name, value in item.items() if value not in (None, ""))
    columns = sorted(names, key=lambda name: name == "message")
    return columns, [[_cell(item.get(name)) for name in columns] for item in items]


def _heading(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    return "" if value is None else _visible_lines(str(value))


def _print_rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Prose folds between words. Ids, times and names stay whole, to be copied: where they do not fit side by side,
    rows run on over the edge."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    is_prose = [any(" " in row[index] for row in cells) for index in range(len(columns))]
    widths = [max(map(len, column)) for column in zip(map(_heading, columns), *cells, strict=True)]
    least = sum(min(width, _PROSE_WIDTH) if prose else width for width, prose in zip(widths, is_prose, strict=True))
    if least + len(_GAP) * (len(columns) - 1) > console.width:
        heading, *lines = _aligned(columns, cells)
        console.print(Text(heading, style="bold"), soft_wrap=True)
        for line, row, style in zip_longest(lines, cells, styles, fillvalue=""):
            text = Text(line, style=style)
            for cell in row:
                text.highlight_words([cell] if cell in _STYLES else [], _STYLES.get(cell, ""))
            console.print(text, soft_wrap=True)
        return
    table = Table(box=None, header_style="bold", padding=(0, len(_GAP), 0, 0), pad_edge=False)
    for column, prose in zip(columns, is_prose, strict=True):
        table.add_column(_heading(column), no_wrap=not prose, overflow="fold")
    for row, style in zip_longest(cells, styles, fillvalue=""):
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row), style=style)
    console.print(table)


_GAP = "  "
_PROSE_WIDTH = 24
_STYLES = {
    "Ready": "green",
    "succeeded": "green",
    "Creating": "yellow",
    "running": "yellow",
    "waiting": "yellow",
    "cancelling": "yellow",
    "cancelled": "magenta",
    "Drained": "yellow",
    "Failed": "red",
    "failed": "red",
    "Deleting": "magenta",
}


def _field_lines(fields: Mapping[str, Any], indent: str) -> list[str]:
    width = max((len(name) for name in fields), default=0)
    lines: list[str] = []
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{name}:")
            lines.extend(_field_lines(value, indent + "  "))
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            lines.append(f"{indent}{name}:")
            lines.extend(indent + "  " + line for line in _aligned(*_as_table(value)))
        else:
            values = value if isinstance(value, list | tuple) else () if value == {} else (value,)
            lines.append(f"{indent}{name.ljust(width)}  {', '.join(map(_cell, values)) or '-'}")
    return lines
