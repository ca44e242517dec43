"""What the connection of a caller is to the exchange that answers on it. Types only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from provisioner.gateway.refusal import Refusal


class Caller(Protocol):
    """The connection on which the answer goes out. `is_slow` while the system has not taken what was written."""

    is_slow: bool
    write: Callable[[bytes], None]
    """Sends the next bytes of the answer."""

    def refuse(self, refusal: Refusal) -> None:
        """Sends `refusal` as the whole answer and ends the exchange."""
        ...

    def finish(self, *, keep_alive: bool) -> None:
        """The answer is complete."""
        ...

    def abort(self, *, visibly: bool) -> None:
        """Breaks the connection off: the only honest end for an answer that has begun and cannot be completed.
        `visibly` where a plain end of the connection would look like the answer's."""
        ...

    def wait_at_most(self, seconds: float) -> None:
        """Bounds the silence that begins now."""
        ...

    def hold_reading(self, *, is_held: bool) -> None:
        """Reads no more of the request's body, or reads on."""
        ...
