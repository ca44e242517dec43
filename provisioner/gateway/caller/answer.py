"""The answer of a replica in the form in which the caller gets it: the head, the framing, and an honest end.

The body's bytes are the replica's own. Around them stand a head with our fields, chunks where no length is known,
comments that keep a silent stream of events open, and an error event where such a stream breaks off. Made by `exchange`
once the replica's head is read; writes nothing itself. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from provisioner.gateway.caller.request import Request
from provisioner.gateway.refusal import Refusal
from provisioner.gateway.replica.answer_head import AnswerHead
from provisioner.gateway.usage.answer import AnswerReader

_BODILESS: Final = frozenset((204, 304))
_COMMENT: Final = b": keep-alive\n\n"


class Answer:
    """One answer. `has_begun` once its head was given out; after it the connection goes on if `keep_alive`."""

    __slots__ = (
        "_has_length",
        "_head",
        "_is_chunked",
        "_reader",
        "_trailers",
        "bytes_out",
        "has_begun",
        "keep_alive",
        "status",
    )

    def __init__(
        self,
        request: Request,
        head: AnswerHead,
        reader: AnswerReader,
        *,
        more_lines: Sequence[bytes],
        keep_alive: bool,
    ) -> None:
        """`more_lines` are ours: of allowances, where there are any, and then the engine's own do not count."""
        self.status = head.status
        self.bytes_out = 0
        self.has_begun = False
        self._reader = reader
        self._is_chunked = False
        self._has_length = head.length is not None
        self._trailers: Sequence[bytes] = ()
        opening = head.opening_without_limits if more_lines else head.opening
        made = [opening, b"x-request-id: ", request.request_id, b"\r\n", *more_lines]
        if head.length is not None:
            made += (b"content-length: ", head.length, b"\r\n")
        elif head.status not in _BODILESS:
            if request.is_http_1_0:
                keep_alive = False
            else:
                self._is_chunked = True
                made.append(b"transfer-encoding: chunked\r\n")
        if not keep_alive:
            made.append(b"connection: close\r\n")
        elif request.is_http_1_0:
            made.append(b"connection: keep-alive\r\n")
        made.append(b"\r\n")
        self.keep_alive = keep_alive
        self._head = made

    @property
    def ends_with_connection(self) -> bool:
        """Whether only the end of the connection tells the caller that the answer is complete."""
        return not self._is_chunked and not self.keep_alive

    def next(self, body: bytes) -> bytes:
        """What the caller gets of the next piece of the body, the head before the first one."""
        return b"".join(self._framed(self._reader.read(body)))

    def last(self, body: bytes) -> bytes:
        """Likewise for the last piece, with the end of the framing."""
        reader = self._reader
        passed = reader.read(body)
        held_back = reader.finish()
        pieces = self._framed(passed + held_back if held_back else passed)
        if self._is_chunked:
            pieces += (b"0\r\n", *self._trailers, b"\r\n")
        return b"".join(pieces)

    def take_trailers(self, lines: Sequence[bytes]) -> None:
        """Notes the trailers of the replica's answer; they go on where there are chunks to follow."""
        self._trailers = lines

    def comment(self) -> bytes:
        """A comment to put between two events, if that is possible now; else nothing."""
        return self._between_events(_COMMENT)

    def error_event(self, refusal: Refusal) -> bytes:
        """`refusal` as the last event of a stream of events that broke off between two of them; else nothing, as where
        a length was told, which it would make whole.

        The chunks are not brought to their end after it: whoever does not know the event still sees the break.
        """
        return self._between_events(b"event: error\ndata: " + refusal.body() + b"\n\n")

    def _between_events(self, text: bytes) -> bytes:
        """`text` of our own as it stands in the answer now; nothing where it must not."""
        if self._has_length or not (self.has_begun and self._reader.is_between_events):
            return b""
        return b"%x\r\n%b\r\n" % (len(text), text) if self._is_chunked else text

    def _framed(self, body: bytes) -> list[bytes]:
        pieces = [] if self.has_begun else self._head
        self.has_begun = True
        size = len(body)
        self.bytes_out += size
        if not self._is_chunked:
            pieces.append(body)
        elif size:
            pieces += (b"%x\r\n" % size, body, b"\r\n")
        return pieces
