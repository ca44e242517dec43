"""Moves a form to a replica as it arrives from the caller, and no faster than the replica takes it.

When the replica falls behind, the caller is not read from either, beyond a little. Made by `sending` for a body that
may not have arrived whole yet; `exchange` tells it to go on.
"""

from __future__ import annotations

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.replica.upstream import UpstreamConnection


class Upload:
    """One form on its way. `is_done` once the last of it was handed to the connection."""

    __slots__ = ("_form", "_is_chunked", "_upstream", "is_done")

    def __init__(self, form: FormBody, upstream: UpstreamConnection, *, is_chunked: bool) -> None:
        self._form = form
        self._upstream = upstream
        self._is_chunked = is_chunked
        self.is_done = False

    @property
    def is_blocked(self) -> bool:
        """Whether the replica does not take what is there for it."""
        return self._upstream.is_slow

    @property
    def is_backed_up(self) -> bool:
        """Whether the caller must not be read from for now."""
        return self._upstream.is_slow and self._form.is_backed_up

    @property
    def received_bytes(self) -> int:
        """How much of the form has arrived from the caller."""
        return self._form.received_bytes

    def go_on(self) -> None:
        """Hands on what there is, as far as the replica takes it. Raises `OSError` when what was put aside cannot be
        read back."""
        while not (self.is_done or self._upstream.is_slow):
            piece = self._form.take()
            if piece:
                self._upstream.write((b"%x\r\n%b\r\n" % (len(piece), piece)) if self._is_chunked else piece)
            elif self._form.is_whole:
                self.is_done = True
                self._upstream.end_sending(b"0\r\n\r\n" if self._is_chunked else b"")
            else:
                break
