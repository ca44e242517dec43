"""The record of one finished request: who, where to, how it ended and what it used. Nothing of a prompt or an answer.

The names are part of the contract of the usage file, and of the control plane's door, which takes those that it counts.
Made by the sinks, `delivery` and `file`. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from provisioner.domain.snapshot import Route
from provisioner.domain.usage import Outcome
from provisioner.gateway.usage.plain_record import CountedRecord
from provisioner.gateway.usage.tally import Tally

ANONYMOUS: Final = "anonymous"
"""Stands for the key of a caller who needed none."""

_DIGEST_CHARACTERS: Final = 12
"""Of the digest of a key without a name, for people to tell one from the other."""

_NO_STATUS: Final = 499
"""Stands for the status of a request whose caller left before it got one, as nginx has it."""

_TEXT_CHARACTERS: Final = 128
"""Of what callers choose freely: an alias that does not exist, a path."""

_encode: Final = msgspec.json.Encoder().encode  # a sixth of what orjson takes for so little, each time anew


def json_line(record: CountedRecord | dict[str, Any]) -> bytes:
    """A record as JSON, with the end of its line."""
    return _encode(record) + b"\n"


def counted_record(tally: Tally, route: Route, outcome: Outcome, ended: float) -> CountedRecord:
    """What of a request for `route` is counted by the control plane (`admission.usage`), and what it takes as evidence
    of a fallback; what it takes for granted is left out."""
    key, tokens = tally.key, tally.tokens
    return CountedRecord(
        at=tally.at,
        tenant=key.tenant or route.tenant,
        endpoint=route.endpoint,
        key=key.name or key.digest or ANONYMOUS,
        status=tally.status or _NO_STATUS,
        outcome=outcome,
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        duration_ms=_milliseconds(tally.began, ended),
        team=key.team,
        request_id=tally.request_id.decode("latin-1") if tally.target or tally.denial else "",
        target=tally.target,
        denial=tally.denial,
    )


def record_of(tally: Tally, outcome: Outcome, ended: float) -> dict[str, Any]:
    """The whole record of a request that ended at `ended` (as the notes tell time). Durations are milliseconds, sizes
    are bytes of bodies; None stands for what was not told or did not happen."""
    key, route, backend, tokens = tally.key, tally.route, tally.backend, tally.tokens
    return {
        "at": tally.at,
        "tenant": key.tenant or (route.tenant if route is not None else ""),
        "key": key.name or key.digest[:_DIGEST_CHARACTERS] or ANONYMOUS,
        "team": key.team,
        "alias": _bounded(tally.alias),
        "endpoint": route.endpoint if route is not None else None,
        "upstream_model": _model(tally),
        "replica": backend.address if backend is not None else None,
        "path": _path(tally.path),
        "status": tally.status or _NO_STATUS,
        "outcome": outcome.value,
        "finish_reason": tokens.finish_reason,
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "ttfb_ms": _milliseconds(tally.began, tally.first_byte),
        "ttft_ms": _milliseconds(tally.began, tally.first_token),
        "duration_ms": _milliseconds(tally.began, ended),
        "bytes_in": tally.bytes_in,
        "bytes_out": tally.bytes_out,
        "request_id": tally.request_id.decode("latin-1"),
        "target": tally.target,
        "denial": tally.denial,
    }


def _model(tally: Tally) -> str | None:
    """The name under which the engine knows the model."""
    route = tally.route
    if route is None:
        return None
    model = route.fallback.model if tally.target and route.fallback else route.upstream_model
    return model or tally.alias


@lru_cache(maxsize=1024)
def _path(target: bytes) -> str:
    return _bounded(target.partition(b"?")[0].decode("latin-1"))


def _milliseconds(begin: float, end: float | None) -> float | None:
    return None if end is None else round((end - begin) * 1000, 3)


def _bounded(text: str) -> str:
    text = text[:_TEXT_CHARACTERS]
    return text if text.isascii() else text.encode(errors="replace").decode()  # JSON may have halves of characters
