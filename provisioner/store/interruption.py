"""Taking an operation from the worker that runs it: what the worker is just writing outside may still land.

Its fence goes at once, so that it writes nothing to the database and no next thing outside. Whoever goes on in its
place, to undo or to delete, begins when the worker says that it writes nothing any more, or at the end of its lease,
which is longer than any request takes. Until then the row says whom it waits for, in the place of a holder.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text, case, cast, literal

from provisioner.domain.lease import Fence
from provisioner.store.schema import OPERATIONS

_AFTER = "after "
_COLUMNS = OPERATIONS.c


def interrupted(now: datetime) -> dict[str, Any]:
    """The columns of an operation that is taken away: due now, or once its worker has stepped aside."""
    is_idle = _COLUMNS.lease_fence.is_(None)
    after = literal(_AFTER) + cast(_COLUMNS.lease_fence, Text)
    return {
        "next_attempt_at": case((is_idle, literal(now, _COLUMNS.next_attempt_at.type)), else_=_COLUMNS.next_attempt_at),
        "lease_holder": case((is_idle, literal(None, Text)), else_=after),
        "lease_fence": None,
        "lease_renewed_at": None,
    }


def interrupted_by(fence: Fence) -> str:
    """What a row says that waits for the worker that had this fence."""
    return f"{_AFTER}{fence}"
