"""Finding the `model` part of a multipart/form-data body, to the byte, as the body passes (RFC 7578).

Transcription requests carry the file and the model's name in parts of any order. Only the content of the `model` part
is located; the boundaries, the file and every other part stay as they were sent. Part headers that different readers
might read differently are refused, for the engine must not find a model where the gateway found none. Used by
`form_body`. Pure.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from provisioner.gateway.body.json_fields import BodyError, Span

_BOUNDARY = re.compile(rb'(?i:;[ \t]*boundary=)(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))')
_DISPOSITION = re.compile(rb"(?im:^content-disposition:)[ \t]*([^\r\n]*)")
_FORM_DATA = re.compile(rb"(?i:form-data)[ \t]*(?=;|$)")
_PARAMETER = re.compile(rb';[ \t]*([^\s=;"]+)=("(?:[^"\\]|\\.)*+"|[^\s;"]*)[ \t]*')
_PARTS_LIMIT = 256
_PART_HEAD_LIMIT = 8192
_MODEL_LIMIT = 4096


def is_multipart(content_type: bytes) -> bool:
    """Whether a body of this content type has parts."""
    return content_type[:19].lower() == b"multipart/form-data"


class _At(Enum):
    START = auto()
    BOUNDARY = auto()
    HEAD = auto()
    CONTENT = auto()
    END = auto()


class PartScanner:
    """Reads a form in pieces. `model` and `span` are those of the `model` part as soon as it has passed whole."""

    def __init__(self, content_type: bytes) -> None:
        """Raises `BodyError` for a content type without a usable boundary."""
        boundaries = _BOUNDARY.findall(content_type)
        if len(boundaries) != 1:
            raise BodyError(
                "its content type names two boundaries" if boundaries else "its content type names no boundary"
            )
        quoted, plain = boundaries[0]
        self._opening = b"--" + (quoted or plain)
        self._delimiter = b"\r\n" + self._opening
        self._at = _At.START
        self._window = b""
        self._offset = 0
        self._parts = 0
        self._in_model = False
        self.model: str | None = None
        self.span: Span | None = None

    def feed(self, piece: bytes) -> None:
        """Reads on. Raises `BodyError` as soon as this cannot be a form that names one model at most."""
        self._window += piece
        while self._step():
            pass

    def finish(self) -> None:
        """The body is whole. Raises `BodyError` when the form is not."""
        if self._at is not _At.END:
            raise BodyError("it is not a complete multipart body")

    def _step(self) -> bool:
        """Reads one thing on, if there is enough of it."""
        if self._at is _At.CONTENT:
            return self._read_content()
        if self._at is _At.HEAD:
            return self._read_head()
        if self._at is _At.BOUNDARY:
            return self._read_boundary()
        if self._at is _At.START:
            return self._read_start()
        self._drop(len(self._window))  # what follows the form is nobody's
        return False

    def _read_start(self) -> bool:
        size = len(self._opening)
        if not self._window.startswith(self._opening[: len(self._window)]):
            raise BodyError("it does not begin with its boundary")
        if len(self._window) < size:
            return False
        self._drop(size)
        self._at = _At.BOUNDARY
        return True

    def _read_boundary(self) -> bool:
        end = self._window[:2]
        if len(end) < 2:
            return False
        if end == b"--":
            self._at = _At.END
            return True
        if end != b"\r\n":
            raise BodyError("it is not a complete multipart body")
        self._parts += 1
        if self._parts > _PARTS_LIMIT:
            raise BodyError(f"it has more parts than {_PARTS_LIMIT}")
        self._at = _At.HEAD  # the line end stays: a part without header fields ends its head with it
        return True

    def _read_head(self) -> bool:
        end = self._window.find(b"\r\n\r\n", 0, _PART_HEAD_LIMIT)
        if end < 0:
            if len(self._window) >= _PART_HEAD_LIMIT:
                raise BodyError(f"the header of a part is longer than {_PART_HEAD_LIMIT} bytes")
            return False
        self._in_model = _part_name(self._window[:end]) == b"model"
        if self._in_model and self.model is not None:
            raise BodyError("it names the model twice")
        self._drop(end + 4)
        self._at = _At.CONTENT
        return True

    def _read_content(self) -> bool:
        end = self._window.find(self._delimiter)
        if end < 0:
            if self._in_model:
                _check_name_length(len(self._window) - len(self._delimiter))
            else:
                self._drop(max(0, len(self._window) - len(self._delimiter) + 1))
            return False
        if self._in_model:
            self._take_model(end)
        self._drop(end + len(self._delimiter))
        self._at = _At.BOUNDARY
        return True

    def _take_model(self, length: int) -> None:
        _check_name_length(length)
        try:
            self.model = self._window[:length].decode()
        except UnicodeDecodeError:
            raise BodyError("the name of the model is not UTF-8") from None
        self.span = (self._offset, self._offset + length)
        self._in_model = False

    def _drop(self, size: int) -> None:
        self._window = self._window[size:]
        self._offset += size


def _check_name_length(length: int) -> None:
    if length > _MODEL_LIMIT:
        raise BodyError(f"the name of the model is longer than {_MODEL_LIMIT} bytes")


def _part_name(head: bytes) -> bytes | None:
    """The name in the header block of a part. Raises `BodyError` for one that can be read in two ways."""
    plain = head.replace(b"\r\n", b"")
    if b"\n" in plain or b"\r" in plain or b"\r\n " in head or b"\r\n\t" in head:
        raise BodyError("the header of a part has a line end where none belongs")
    found = _DISPOSITION.findall(head)
    if not found:
        return None
    kind = _FORM_DATA.match(found[0])
    names = []
    position = kind.end() if kind else 0
    while parameter := _PARAMETER.match(found[0], position):
        position = parameter.end()
        if parameter[1].lower().partition(b"*")[0] == b"name":
            names.append(parameter)
    is_clear = len(found) == 1 and kind is not None and position == len(found[0]) and len(names) < 2
    if not is_clear or any(b"*" in name[1] or b"\\" in name[2] for name in names):
        raise BodyError("the name of a part can be read in two ways")
    return names[0][2].strip(b'"') if names else None
