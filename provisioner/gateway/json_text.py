"""Expressions for JSON text that comes in pieces and of which most is skipped. All are possessive: none ever looks
back, so each takes time in proportion to what it skips. Used by the scanners of bodies and of answers. Pure.
"""

from __future__ import annotations

import re
from typing import Final

SPACE: Final = rb"[ \t\n\r]*+"
STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'

SPACES: Final = re.compile(SPACE)
WHOLE_STRING: Final = re.compile(STRING, re.DOTALL)
STRING_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


def balanced_run(outside: bytes, depth: int) -> re.Pattern[bytes]:
    """What matches a run of values whose brackets are balanced, up to `depth` levels of them; `outside` is an
    expression for what stands outside of strings and brackets."""
    inside = outside + rb"|" + STRING
    nested = rb"[\[{](?:" + inside + rb")*+[\]}]"
    for _ in range(depth - 1):
        nested = rb"[\[{](?:" + inside + rb"|" + nested + rb")*+[\]}]"
    return re.compile(rb"(?:" + inside + rb"|" + nested + rb")*+", re.DOTALL)
