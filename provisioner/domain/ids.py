"""Identifiers and where randomness comes from.

Ids are types with a prefix, so that they cannot be mixed up in code or in a log. `Ids` makes new ones; tests hand in a
counting one. Secrets of API keys are made here too, since they are nothing but randomness.
"""

from __future__ import annotations

import secrets
from typing import NewType, Protocol

EndpointId = NewType("EndpointId", str)
OperationId = NewType("OperationId", str)
KeyId = NewType("KeyId", str)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # without l, o, 0 and 1, which people misread


class Ids(Protocol):
    """Makes new identifiers and secrets."""

    def endpoint(self) -> EndpointId:
        """A new endpoint id, `ep-` and ten letters or digits: a DNS label, also with `r<n>-<revision>-` before it."""
        ...

    def operation(self) -> OperationId:
        """A new operation id, `op-` and sixteen letters or digits."""
        ...

    def key(self) -> KeyId:
        """A new key id, `key-` and ten letters or digits."""
        ...

    def secret(self) -> str:
        """A new API key: `tnt-` and 256 random bits in 43 URL-safe characters."""
        ...


class RandomIds:
    """Identifiers from the operating system's random source."""

    def endpoint(self) -> EndpointId:
        """A new endpoint id: about 50 random bits."""
        return EndpointId(f"ep-{_word(10)}")

    def operation(self) -> OperationId:
        """A new operation id: about 80 random bits."""
        return OperationId(f"op-{_word(16)}")

    def key(self) -> KeyId:
        """A new key id: about 50 random bits."""
        return KeyId(f"key-{_word(10)}")

    def secret(self) -> str:
        """A new API key with 256 random bits."""
        return f"tnt-{secrets.token_urlsafe(32)}"


def _word(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
