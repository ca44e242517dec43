"""Lists without what cannot be read: one row of another version must not hide all others. What is left out is logged.

Asked for by itself, such a row is answered with 500 and the error that names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeVar

from provisioner.domain.errors import InvariantError

ValueT = TypeVar("ValueT")

_log = logging.getLogger(__name__)


def readable(found: Iterable[ValueT | InvariantError]) -> list[ValueT]:
    """The values among what was found, in order."""
    values = []
    for one in found:
        if isinstance(one, InvariantError):
            _log.error("left out of a list: %s", one, extra={"action": "row_unreadable"})
        else:
            values.append(one)
    return values
