"""Lines of templates that will be YAML, read without filling them in: plain scalars that mean two things. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.lint.scalars import Doubt, Reading, read_plain

_LINE = re.compile(r"(?P<indent>[ ]*)(?:- )*(?:(?P<key>[\w./-]+):[ ]+)?(?P<value>[^\s#'\"{}\[\],&*|>:]+)[ ]*(?:#.*)?")
_BLOCK = re.compile(r"[ ]*(?:- )*[\w./\"'-]*:?[ ]*[|>][-+0-9]*[ ]*(?:#.*)?")
_MODES = re.compile(r".*[mM]ode|umask")


def doubtful_lines(text: str) -> Iterator[tuple[int, str, Reading]]:
    """Line (from 1), scalar and reading of what stands alone behind a key or a dash; block texts are passed over."""
    within: int | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        indent = len(line) - len(line.lstrip(" "))
        if within is not None and (indent > within or not line.strip()):
            continue
        within = indent if _BLOCK.fullmatch(line) else None
        found = _LINE.fullmatch(line) if "{" not in line else None
        if found is None or not (found["key"] or line.lstrip().startswith("- ")):
            continue
        reading = read_plain(found["value"])
        if reading.doubt in (Doubt.BOOLEAN, Doubt.NUMBER) and not _MODES.fullmatch(found["key"] or ""):
            yield number, found["value"], reading
