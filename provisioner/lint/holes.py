"""Text with `{{ }}` holes made readable as YAML: each hole becomes a mark, and each mark a `Hole` again.

The Platform, Helm and Argo CD print into text, so the text before them need not be YAML. Lines that hold nothing but
an action are blanked. Lines keep their numbers. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_ALONE = re.compile(r"^[ \t]*(?:\{\{(?:(?!\}\}).)*\}\}[ \t]*)+$", re.MULTILINE | re.DOTALL)
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
        return f"{_OPEN}{len(holes) - 1}{_CLOSE}"

    has_branches = _BRANCH.search(text) is not None
    lines = _ALONE.sub(lambda found: "\n" * found[0].count("\n"), text)
    made = []
    for line in _joined_lines(lines):
        lost = line.count("\n")
        made.append(_HOLE.sub(marked, line))
        made.extend([""] * (lost - made[-1].count("\n")))
    return Masked("\n".join(made), tuple(holes), has_branches)


def _joined_lines(text: str) -> list[str]:
    """The lines of a text; a hole that spans several keeps them together."""
    found: list[str] = []
    pending = ""
    for line in text.split("\n"):
        pending = f"{pending}\n{line}" if pending else line
        if pending.count("{{") <= pending.count("}}") or pending.count("\n") > 50:
            found.append(pending)
            pending = ""
    return [*found, pending] if pending else found
