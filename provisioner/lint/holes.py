"""Text with `{{ }}` holes made readable as YAML: each hole becomes a mark, and each mark a `Hole` again.

The Platform, Helm and Argo CD print into text, so the text before them need not be YAML. Lines that hold nothing but
an action are blanked. Lines keep their numbers. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_LOST = "\ue002"
"""Stands for the end of a line inside of a hole."""
_ONE = r"\{\{(?:(?!\{\{|\}\}).)*\}\}"
_HOLE = re.compile(_ONE, re.DOTALL)
_ALONE = re.compile(rf"^[ \t]*(?:{_ONE}[ \t]*)+$", re.MULTILINE | re.DOTALL)
_BROKEN_LINE = re.compile(f"[^\n]*{_LOST}[^\n]*")
_BRANCH = re.compile(r"\{\{-?\s*(if|else|range|with|end|define|block|template)\b")


@dataclass(frozen=True, slots=True)
class Masked:
    """Text whose holes are marks. `has_branches` tells that parts of it may be left out or repeated."""

    text: str
    holes: tuple[str, ...]
    has_branches: bool

    def has_mark(self, text: str) -> bool:
        """Whether a hole stands in the text."""
        return _OPEN in text

    def original(self, text: str) -> str:
        """The text as it was written."""
        return _MARK.sub(lambda found: self.holes[int(found[1])], text) if _OPEN in text else text


def mask(text: str) -> Masked:
    """Replace every hole by a mark."""
    holes: list[str] = []

    def marked(found: re.Match[str]) -> str:
        holes.append(found[0])
        return f"{_OPEN}{len(holes) - 1}{_CLOSE}{_LOST * found[0].count(chr(10))}"

    has_branches = _BRANCH.search(text) is not None
    blanked = _ALONE.sub(lambda found: "\n" * found[0].count("\n"), text)
    return Masked(_BROKEN_LINE.sub(_mended_line, _HOLE.sub(marked, blanked)), tuple(holes), has_branches)


def _mended_line(found: re.Match[str]) -> str:
    """A line whose holes were on several: the lines that it lost come after it, empty."""
    line = found[0]
    return line.replace(_LOST, "") + "\n" * line.count(_LOST)
