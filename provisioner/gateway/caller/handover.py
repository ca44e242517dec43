"""Hands a listening address over to the next process, so that a restart loses no connection.

Both listen with SO_REUSEPORT, and Linux spreads new connections over the two. A listener that closes resets those that
wait for it, so before that the old process tells the kernel to send every new one to the newer listener (a classic BPF
program of one instruction, socket(7)), and takes those that wait already. Where the kernel cannot be told, a connection
may be lost at that moment. Called by `server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Any

_ATTACH = 51
"""SO_ATTACH_REUSEPORT_CBPF of Linux, which the standard library does not name."""
_DETACH = 68
"""SO_DETACH_REUSEPORT_BPF."""
_RETURN_SECOND = struct.pack("HBBI", 0x06, 0, 0, 1)
"""`return 1`: the listener that came second. Where there is one only, the kernel goes by its own choice."""


def hand_over(listeners: Iterable[socket.socket]) -> None:
    """Sends new connections to the listener that was opened after these."""
    program = ctypes.create_string_buffer(_RETURN_SECOND)
    told = struct.pack("HP", 1, ctypes.addressof(program))
    _tell(listeners, _ATTACH, told)


def take_over(listeners: Iterable[socket.socket]) -> None:
    """Forgets what an earlier process told the kernel."""
    _tell(listeners, _DETACH, 0)


async def is_shared(host: str, port: int) -> bool:
    """Whether a process listens there already: right while one hands over to the next, a surprise at any other time.

    Raises `OSError` for a host that does not exist.
    """
    if not port:
        return False
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return any(_is_taken(family, address) for family, _, _, _, address in found)


def _is_taken(family: int, address: tuple[Any, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended take nothing
        try:
            probe.bind(address)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _tell(listeners: Iterable[socket.socket], option: int, value: bytes | int) -> None:
    if sys.platform != "linux":
        return
    for listener in listeners:
        with contextlib.suppress(OSError):  # nothing to detach, or a kernel that does not know it
            listener.setsockopt(socket.SOL_SOCKET, option, value)
