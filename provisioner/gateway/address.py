"""Tells why an address cannot be listened on, with the setting that names it. Pure. Used by `server` and by the
operator's listener."""

from __future__ import annotations

import os
import socket

from provisioner.domain.errors import RejectedError


def address_refused(variable: str, host: str, port: int, error: OSError) -> RejectedError:
    """The error for `host` and `port` of the setting `variable`, where the system has answered with `error`."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        why = error.strerror or str(error)
    else:
        why = os.strerror(error.errno)  # asyncio and uvloop put the address in, each in a form of its own
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return RejectedError(
        f"listening on `{address}` of {variable}: {why}",
        reason="AddressRefused",
        hint=f"stop what listens there, or set {variable} to another port or address of this machine",
    )
