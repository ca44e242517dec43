"""What is noted of one request while it goes on; `record` makes a record of it at its end."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from provisioner.domain.snapshot import Backend, KeyDigest, Route


class Tokens:
    """What an engine told of one request; None where it told nothing. Never changed."""

    __slots__ = ("completion", "finish_reason", "prompt")

    def __init__(
        self, prompt: int | None = None, completion: int | None = None, finish_reason: str | None = None
    ) -> None:
        self.prompt = prompt
        self.completion = completion
        self.finish_reason = finish_reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and (self.prompt, self.completion, self.finish_reason) == (
            other.prompt,
            other.completion,
            other.finish_reason,
        )


NO_TOKENS: Final = Tokens()


class Tally:
    """Notes of one request; times are those of the steady clock `DataPath.time`, in seconds."""

    __slots__ = (
        "alias",
        "at",
        "backend",
        "began",
        "bytes_in",
        "bytes_out",
        "denial",
        "first_byte",
        "first_token",
        "key",
        "path",
        "request_id",
        "route",
        "status",
        "target",
        "tokens",
    )

    def __init__(self, at: datetime, began: float, key: KeyDigest, path: bytes, request_id: bytes) -> None:
        self.at = at
        self.began = began
        self.key = key
        self.path = path
        self.request_id = request_id
        self.alias = ""
        self.route: Route | None = None
        self.backend: Backend | None = None
        self.status = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.first_byte: float | None = None
        self.first_token: float | None = None
        self.tokens = NO_TOKENS
        self.target = ""
        """Of a fallback: the policy's name, when the request went outside."""
        self.denial = ""
        """Why a fallback was not used, when it could have been."""
