"""Shows an operation's progress: a live table of stages on a terminal, one line per change in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from provisioner.cli.output import say

if TYPE_CHECKING:
    from rich.table import Table

    from provisioner.wire.operation import OperationView


def show_progress(views: Iterator[OperationView], first: OperationView) -> OperationView:
    """Show each view as it comes; the last one."""
    return _show_live(views, first) if sys.stderr.isatty() else _show_lines(views, first)


def _show_lines(views: Iterator[OperationView], last: OperationView) -> OperationView:
    told: set[tuple[str, str, str]] = set()
    for last in views:
        for name, state, reason, message, elapsed in _rows(last):
            if (state != "pending" or reason) and (name, state, reason) not in told:
                told.add((name, state, reason))
                say(f"{name:<17} {state:<9}{_seconds(elapsed):>8}  {_why(reason, message)}".rstrip())
    return last


def _show_live(views: Iterator[OperationView], last: OperationView) -> OperationView:
    from rich.console import Console
    from rich.live import Live

    box = _Stages(last)
    with Live(box, console=Console(stderr=True), refresh_per_second=8):
        for last in views:
            box.show(last)
    return last


class _Stages:
    """What Rich redraws: elapsed times grow between two views."""

    def __init__(self, view: OperationView) -> None:
        self.show(view)

    def show(self, view: OperationView) -> None:
        self._view, self._seen = view, time.monotonic()

    def __rich__(self) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        waiting = False
        for name, state, reason, message, elapsed in _rows(self._view):
            is_current = state != "done" and not waiting
            waiting = waiting or state != "done"
            mark = Text("✓", "green") if state == "done" else Text("✗", "red") if state == "error" else Text("·", "dim")
            if is_current and state != "error" and self._view.state not in ("failed", "cancelled"):
                elapsed = (elapsed or 0.0) + time.monotonic() - self._seen
                table.add_row(
                    Spinner("dots", style="yellow"), Text(name, "bold"), _seconds(elapsed), _why(reason, message)
                )
            else:
                shown = _seconds(elapsed) if state != "pending" else ""
                table.add_row(mark, Text(name, "" if state == "done" else "dim"), shown, _why(reason, message))
        return table


def _rows(view: OperationView) -> list[tuple[str, str, str, str, float | None]]:
    if view.stages:
        return [(s.name, s.state, s.reason, s.message, s.elapsed_seconds) for s in view.stages]
    return [
        (s.name, "done" if s.finished_at else "pending", s.reason, s.message, s.elapsed_seconds) for s in view.steps
    ]


def _seconds(elapsed: float | None) -> str:
    return "" if elapsed is None else f"{elapsed:.1f} s"


def _why(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message
