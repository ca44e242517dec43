"""Whether somebody listens at an address already."""

from __future__ import annotations

import socket

import pytest

from provisioner.gateway.caller.handover import is_shared


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", ""])
async def test_address_is_shared_as_long_as_another_listens_there(host: str) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert not await is_shared("127.0.0.1", 0)
        other.listen()
        assert await is_shared(host, port)
    assert not await is_shared(host, port)
