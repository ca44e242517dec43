"""The signed assertion of who asks: a bare compact JWT for the audience `model-router`.

HS256 only, with the claims `aud`, `email` and `exp`. Whatever else is sent proves nothing. Pure but for a bounded
memory of what was read, so that one assertion on many requests is verified once; the clock is the caller's. Used by
`claim`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jwt

AUDIENCE = "model-router"
SKEW_SECONDS = 30.0
"""How far the clocks of who signs and who verifies may lie apart."""
LEAST_KEY_BYTES = 32
"""Of a key for HS256: RFC 7518, 3.2."""

_LONGEST_TOKEN_BYTES = 4096
_REMEMBERED = 1024
_READER = jwt.PyJWT({"require": ["aud", "email", "exp"], "verify_exp": False, "verify_nbf": False, "verify_iat": False})


class Assertion(NamedTuple):
    """What was signed: the person's address, case-folded, and from when to when it holds (seconds since 1970)."""

    email: str
    not_before: float
    expires: float

    def holds_at(self, now: float) -> bool:
        """Whether it holds at `now`, give or take the skew."""
        return self.not_before - SKEW_SECONDS <= now < self.expires + SKEW_SECONDS


@lru_cache(maxsize=_REMEMBERED)
def read_assertion(token: bytes, key: bytes) -> Assertion | None:
    """What `token` asserts if it is signed with `key` for us; None for anything else."""
    if len(token) > _LONGEST_TOKEN_BYTES:
        return None
    key = key.ljust(LEAST_KEY_BYTES, b"\0")  # as HMAC does itself: a short key signs the same and is not warned of here
    try:
        claims = _READER.decode(token, key, algorithms=["HS256"], audience=AUDIENCE)
    except jwt.PyJWTError:
        return None
    email, expires, not_before = claims["email"], claims["exp"], claims.get("nbf", 0)
    if not (isinstance(email, str) and email and _is_time(expires) and _is_time(not_before)):
        return None
    return Assertion(email.casefold(), not_before, expires)


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
