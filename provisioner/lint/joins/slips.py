"""Whether one name is another one with a slip of the finger. Pure; no rules stand here.

Names of one family differ on purpose (`tenant-a`, `tenant-b`, `chat-14b`, `chat-8b`): a difference in a short part, or
in one with digits (`a100`, `h100`), is no slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_MOST_PARTS = 12


def is_slip(written: str, known: str) -> bool:
    """Whether `written` was probably meant to be `known`: one part of at least four letters differs by one or two."""
    if _joined(written) == _joined(known):
        return written != known
    parts, wanted = re.split(r"[-._]", written), re.split(r"[-._]", known)
    if len(parts) != len(wanted):
        return False
    wrong = [(one, other) for one, other in zip(parts, wanted, strict=True) if one != other]
    if len(wrong) != 1 or not all(part.isalpha() and len(part) >= 4 for part in wrong[0]):
        return False
    return distance(*wrong[0]) <= (1 if len(wrong[0][1]) < 6 else 2)


def meant(written: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    return next((name for name in known if is_slip(written, name)), None)


class Names:
    """Many names, among which the one that a slip was meant to be is found without trying each."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all = frozenset(names)
        self._joined: dict[str, str] = {}
        self._but_one: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        for name in sorted(self.all):
            self._joined.setdefault(_joined(name), name)
            for key in _but_one(name):
                self._but_one.setdefault(key, []).append(name)

    def meant_by(self, written: str) -> str | None:
        """The name that was probably meant."""
        same = self._joined.get(_joined(written))
        near = (name for key in _but_one(written) for name in self._but_one.get(key, ()))
        return same if same and same != written else meant(written, near)


def _but_one(name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The parts of a name without one of them, for each of them."""
    parts = tuple(re.split(r"[-._]", name)[:_MOST_PARTS])
    return ((place, (*parts[:place], *parts[place + 1 :])) for place in range(len(parts)))


def _joined(name: str) -> str:
    return re.sub(r"[-._]", "", name).lower()


def distance(one: str, other: str) -> int:
    """How many letters differ (Levenshtein), letters that changed places counting once. For short names."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        after = [index]
        for place, wanted in enumerate(other, 1):
            cost = min(row[place] + 1, after[place - 1] + 1, row[place - 1] + (letter != wanted))
            if index > 1 and place > 1 and letter == other[place - 2] and one[index - 2] == wanted:
                cost = min(cost, before[place - 2] + 1)
            after.append(cost)
        before, row = row, after
    return row[-1]
