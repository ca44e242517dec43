"""Where a change comes from: who asked for it, under which idempotency key, in which request.

Made by the API for every mutation and carried into the operation's row, or into the audit event of a change made at
once, so that a trace shows all hops.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT_DAYS = 7
"""How long a change is known by its idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`request_digest` is the SHA-256 of the request's meaning: the same key with another digest is refused. `caller`
    is the id of the API key that was used."""

    idempotency_key: str
    request_digest: str
    actor: str
    request_id: str
    caller: str = ""
