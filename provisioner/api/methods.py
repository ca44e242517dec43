"""Which methods a path of the OpenAPI document has: what an answer 405 has to name (RFC 9110, 15.5.6). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_PARAMETER = re.compile(r"\{\w+\}")


def methods_at(path: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    """The methods of the path that fits most closely, in capitals; none when none fits.

    The router itself names those of the first route that fits, be it one of several or one for any name: `x:warm` is
    a name too.
    """
    return tuple(sorted(map(str.upper, described_at(path, document))))


def described_at(path: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the document says of each method of the path that fits most closely; nothing when none fits."""
    fitting = [template for template in document["paths"] if _fits(path, template)]
    closest = max(fitting, key=lambda template: len(_PARAMETER.sub("", template)), default=None)
    return {} if closest is None else document["paths"][closest]


def _fits(path: str, template: str) -> bool:
    return _pattern(template).fullmatch(path) is not None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """What paths of a template look like; there are as many as routes."""
    return re.compile(".+".join(map(re.escape, _PARAMETER.split(template))), re.DOTALL)
