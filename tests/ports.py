"""Ports for what tests start and for what is started again after a kill.

They lie below those that a system gives to whoever asks for any port, as most tests that run beside do: such a port
may be another's before it is listened on.
"""

from __future__ import annotations

import socket
from random import SystemRandom

from provisioner.cli.laptop import Ports

_CHOICE = range(16_384, 32_768)
_RANDOM = SystemRandom()  # Hypothesis seeds the other one alike in all processes


def free_port() -> int:
    """A port of loopback that nobody listens on, or is given by chance."""
    while True:
        port = _RANDOM.choice(_CHOICE)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def free_ports() -> Ports:
    """Such ports for an installation."""
    return Ports(api=free_port(), control_plane=free_port(), gateway=free_port(), tenant_gateway=free_port())
