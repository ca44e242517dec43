"""A finding: one thing that is wrong (or worth knowing), where it stands, and what to do about it.

The loader, admission and lint all answer with findings; the API and the CLI print them. Findings are collected, never
raised one at a time, so that a person sees all of them at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

_MANY, _ALIKE = 500, 3
"""Of more names than this not each is compared, but only those that begin with as many of the same letters."""


class Severity(StrEnum):
    """Errors refuse; warnings are risks; information is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. `field` is a dotted path such as `scaling.minReplicas`; `file` and `line` (from 1) where known;
    `object` is the manifest it is about, such as `StatefulSet inference/chat`."""

    reason: str
    message: str
    field: str = ""
    hint: str | None = None
    file: str | None = None
    line: int | None = None
    severity: Severity = Severity.ERROR
    object: str = ""

    @property
    def rule(self) -> str:
        """The id of the rule that found it: the reason in kebab-case."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.reason).lower()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        field = f"{self.field}: " if self.field else ""
        return f"{place}{field}{self.message}"


def nearest_name(word: str, names: Iterable[str]) -> str | None:
    """The known name most like `word`, or None when nothing is near enough to be a likely slip. Of very many names only
    those that begin alike are compared."""
    known = {name.lower(): name for name in names}
    if len(known) > _MANY:
        alike = word[:_ALIKE].lower()
        known = dict(islice(((low, name) for low, name in known.items() if low.startswith(alike)), _MANY))
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return known[close[0]] if close else None


def unknown_name_hint(word: str, names: Iterable[str]) -> str:
    """The hint for a name nobody knows: the nearest one if there is one, and what is allowed."""
    known = sorted(set(names))
    allowed = f"allowed: {', '.join(known)}" if known else "nothing is allowed here"
    near = nearest_name(word, known)
    return f"did you mean `{near}`? {allowed}" if near else allowed
