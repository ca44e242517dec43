"""Whether one name is another one with a slip of the finger. Pure; no rules stand here.

Names of one family differ on purpose (`tenant-a`, `tenant-b`, `chat-14b`, `chat-8b`): a difference in a short part, or
in a digit, is no slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def is_slip(written: str, known: str) -> bool:
    """Whether `written` was probably meant to be `known`: one part of at least four letters differs by one or two."""
    if re.sub(r"[-._]", "", written).lower() == re.sub(r"[-._]", "", known).lower():
        return written != known
    parts, wanted = re.split(r"[-._]", written), re.split(r"[-._]", known)
    if len(parts) != len(wanted) or re.sub(r"[^0-9]", "", written) != re.sub(r"[^0-9]", "", known):
        return False
    wrong = [(one, other) for one, other in zip(parts, wanted, strict=True) if one != other]
    if len(wrong) != 1 or min(map(len, wrong[0])) < 4:
        return False
    return distance(*wrong[0]) <= (1 if len(wrong[0][1]) < 6 else 2)


def meant(written: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    return next((name for name in known if is_slip(written, name)), None)


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
