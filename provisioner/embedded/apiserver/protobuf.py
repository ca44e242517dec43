"""The wire form of protocol buffers: just enough to write messages and to take them apart.

`gnostic` writes OpenAPI documents with it and `bodies` reads objects; both say by field numbers what a message means.
A library would want generated classes for hundreds of messages, of which each is used at one place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
_FIXED: Final = {FIXED64: 8, 5: 4}


def varint(number: int) -> bytes:
    """A number not below 0, seven bits a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def number(field: int, value: int) -> bytes:
    """A field that holds a number or a truth value; negative ones in two's complement of 64 bits."""
    return varint(field << 3 | VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def real(field: int, value: float) -> bytes:
    """A field that holds a number with a fraction."""
    return varint(field << 3 | FIXED64) + struct.pack("<d", value)


def data(field: int, value: bytes) -> bytes:
    """A field that holds bytes, a text in UTF-8 or a message."""
    return varint(field << 3 | LENGTH) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A field that holds a text."""
    return data(field, value.encode())


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: its number, and a number or what has a length. Raises ValueError."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        kind = key & 7
        if kind == VARINT:
            value, position = _read_varint(message, position)
            yield key >> 3, value
            continue
        if kind == LENGTH:
            length, position = _read_varint(message, position)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError(f"reading a protocol buffer: unknown wire type: {kind}")
        if position + length > len(message):
            raise ValueError(f"reading a protocol buffer: it ends in the middle of field: {key >> 3}")
        yield key >> 3, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    found = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise ValueError(f"reading a protocol buffer: a number without an end at byte: {position}")
