"""Where a change comes from: who asked for it, under which idempotency key, in which request.

Made by the API for every mutation and carried into the operation's row, so that a trace shows all hops.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`request_digest` is the SHA-256 of the request's meaning: the same key with another digest is refused."""

    idempotency_key: str
    request_digest: str
    actor: str
    request_id: str
