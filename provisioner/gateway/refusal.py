"""Answers that are the gateway's own: the OpenAI error shape, one constructor per cause.

The status tells the caller what to do, `code` is a stable word for programs, `message` a sentence for people. A message
never holds a secret, an address of a replica, or more than a few characters of what the caller sent. Pure.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from provisioner.domain.duration import go_duration

_SHOWN_CHARACTERS = 128

_MOMENT_SECONDS = 1.0
"""What a caller waits who may try again at once, on another connection."""
_PROBE_SECONDS = 5.0
"""What one waits for a replica, or a snapshot, that may be there again: as long as it is from one probe to the next."""
_WAKING_SECONDS = 15.0
"""What one waits for a model that sleeps: as long as it is from one question to wake it to the next."""
_BUDGET_SECONDS = 60.0
"""What one waits where a budget is used up, which only its next period or an administrator fills."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A finished error answer. `closes` marks causes after which the connection's framing cannot be trusted."""

    status: int
    code: str
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False

    def body(self) -> bytes:
        """The OpenAI error object as JSON."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()


class RefusedError(Exception):
    """Ends a request with `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def malformed_http(detail: str) -> Refusal:
    """400 for a request that is not well-formed HTTP; the connection ends, for its framing is unknown."""
    return Refusal(400, "malformed_request", f"The request is not valid HTTP: {detail}.", closes=True)


def malformed_body(detail: str, *, closes: bool = False) -> Refusal:
    """400 for a body in which the model cannot be found for sure."""
    return Refusal(400, "invalid_body", f"The request body cannot be read: {detail}.", closes=closes)


def over_max_tokens(name: str, limit: int) -> Refusal:
    """400 for a request that asks for a longer answer than the model may give."""
    return Refusal(400, "max_tokens_exceeded", f"The greatest `{name}` of this model is: {limit}.", param=name)


def invalid_bound(name: str) -> Refusal:
    """400 for a bound that is no number, where there is one to keep."""
    return Refusal(400, "invalid_type", f"The field has to be a number: `{name}`.", param=name)


def unsupported_path(kind: str) -> Refusal:
    """400 for a path of the API that this kind of model does not answer."""
    message = f"The path is not for models of this kind: {kind}."
    return Refusal(400, "unsupported_path", message, param="model")


def missing_model() -> Refusal:
    """400 for a request that names no model."""
    return Refusal(400, "missing_model", "The `model` field is required.", param="model")


def unauthenticated() -> Refusal:
    """401 for no key, an unknown key or an expired key: the three look the same from outside."""
    challenge = (("WWW-Authenticate", 'Bearer realm="inference"'),)
    message = "No valid API key was given: send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`."
    return Refusal(401, "invalid_api_key", message, type="authentication_error", headers=challenge)


def forbidden(alias: str) -> Refusal:
    """403 for a key whose list of endpoints leaves this one out."""
    message = f"This API key may not use the model: {_shown(alias)}."
    return Refusal(403, "key_not_allowed", message, type="permission_error", param="model")


def unknown_model(alias: str) -> Refusal:
    """404 for an alias that does not exist or belongs to others: the two look the same from outside."""
    return Refusal(404, "model_not_found", f"The model does not exist: {_shown(alias)}.", param="model")


def unknown_path() -> Refusal:
    """404 for a path outside `/v1/`, or one at which there is nothing to be had."""
    return Refusal(404, "unknown_path", "The path does not exist: requests are sent by POST to paths below /v1/.")


def method_not_allowed(allowed: str) -> Refusal:
    """405 with the methods that the path takes."""
    message = f"The path does not take this method; it takes: {allowed}."
    return Refusal(405, "method_not_allowed", message, headers=(("Allow", allowed),))


def timed_out(waited_for: str) -> Refusal:
    """408 for a caller who is too slow to send."""
    return Refusal(408, "request_timeout", f"The {waited_for} did not arrive in time.", closes=True)


def body_too_large(limit_bytes: int) -> Refusal:
    """413 for a body over the bound."""
    message = f"The request body is larger than the limit in bytes: {limit_bytes}."
    return Refusal(413, "request_too_large", message, closes=True)


def compressed_body() -> Refusal:
    """415 for a body in another coding than its own: the model stands inside."""
    message = "Compressed request bodies are not supported: send the body without Content-Encoding."
    return Refusal(415, "unsupported_encoding", message, headers=(("Accept-Encoding", "identity"),))


def expectation_failed() -> Refusal:
    """417 for an `Expect` other than `100-continue`."""
    return Refusal(417, "expectation_failed", "The only supported expectation is: 100-continue.", closes=True)


def used_up(what: str, wait_seconds: float, lines: tuple[tuple[str, str], ...]) -> Refusal:
    """429 for an allowance of `what` that is used up; `lines` are its `x-ratelimit-*` headers."""
    message = f"The allowance of {what} per minute is used up; retry in {go_duration(math.ceil(wait_seconds))}."
    return _slowed("rate_limit_exceeded", message, wait_seconds, lines)


def headers_too_large() -> Refusal:
    """431 for a header block over the bounds."""
    return Refusal(431, "headers_too_large", "The request's header block is too large.", closes=True)


def version_not_supported() -> Refusal:
    """505 for anything but HTTP/1.0 and HTTP/1.1."""
    return Refusal(505, "version_not_supported", "The supported versions are HTTP/1.0 and HTTP/1.1.", closes=True)


def upstream_broke() -> Refusal:
    """502 for a replica that could not be reached, or broke before it began to answer."""
    return Refusal(502, "upstream_failed", "The model server broke off or could not be reached.", type="api_error")


def upstream_auth() -> Refusal:
    """502 for an engine that refuses the gateway: the caller's key is good, and 401 would say that it is not."""
    message = "The model server refused the gateway's own credential."
    return Refusal(502, "upstream_auth", message, type="api_error")


def engine_error(status: int, text: str, retry_after: str | None) -> Refusal:
    """What stands for an engine's error of `status` that is no JSON object: 503, else 502. `text` is what it said."""
    message = f"The model server answered with the status: {status}" + (f" ({text})." if text else ".")
    headers = (("Retry-After", retry_after),) if retry_after else ()
    return Refusal(503 if status == 503 else 502, "upstream_error", message, type="api_error", headers=headers)


def upstream_silent() -> Refusal:
    """504 for a replica that did not begin to answer in time."""
    return Refusal(504, "upstream_timeout", "The model server did not answer in time.", type="api_error")


def no_replica(alias: str) -> Refusal:
    """503 for an endpoint without a live replica."""
    message = f"No replica of the model is ready: {_shown(alias)}."
    return _shed("no_replica", message, _PROBE_SECONDS)


def not_woken(alias: str) -> Refusal:
    """503 for an endpoint that sleeps and was not woken in time."""
    message = f"The model is asleep and has not started yet: {_shown(alias)}."
    return _shed("model_starting", message, _WAKING_SECONDS)


def too_many_held(alias: str) -> Refusal:
    """503 for a request for a sleeping endpoint that too many others wait for."""
    message = f"The model is asleep, and too many requests wait for it to start: {_shown(alias)}."
    return _shed("model_starting", message, _WAKING_SECONDS)


def budget_exhausted(alias: str) -> Refusal:
    """429 for a request that could only go outside, where no more may be sent now."""
    message = f"No replica of the model is ready, and no more requests may go elsewhere now: {_shown(alias)}."
    return _slowed("fallback_exhausted", message, _BUDGET_SECONDS)


def queue_full(retry_after_seconds: float) -> Refusal:
    """503 for a request that finds no place in the queue."""
    return _shed("queue_full", "modelrouter: inference queue full; retry later", retry_after_seconds)


def no_slot_in_time(wait_seconds: float, retry_after_seconds: float) -> Refusal:
    """503 for a request that has waited `wait_seconds` for its turn."""
    message = f"modelrouter: no inference slot within {go_duration(wait_seconds)}; retry later"
    return _shed("queue_timeout", message, retry_after_seconds)


def not_ready() -> Refusal:
    """503 for a gateway that has no snapshot to serve from, or too old a one."""
    return _shed("not_ready", "The gateway is not ready.", _PROBE_SECONDS)


def draining() -> Refusal:
    """503 for a request that a gateway which ends can wait for no longer."""
    message = "The gateway ends and could not wait for the model server's answer."
    return _shed("shutting_down", message, _MOMENT_SECONDS, closes=True)


def too_many_connections() -> Refusal:
    """503 for a connection over the bound."""
    return _shed("overloaded", "The gateway has no room for another connection.", _MOMENT_SECONDS, closes=True)


def too_many_bodies() -> Refusal:
    """503 for a body over the bound of all bodies; it is not read to its end, so the connection ends."""
    return _shed("overloaded", "The gateway has no room for another request body.", _MOMENT_SECONDS, closes=True)


def no_disk() -> Refusal:
    """503 for a form that waits for its model's name and finds no room on the disk meanwhile."""
    return _shed("overloaded", "The gateway has no room to put the request body aside.", _MOMENT_SECONDS, closes=True)


def _shed(code: str, message: str, retry_after_seconds: float, *, closes: bool = False) -> Refusal:
    headers = (_retry_after(retry_after_seconds),)
    return Refusal(503, code, message, type="api_error", headers=headers, closes=closes)


def _slowed(code: str, message: str, retry_after_seconds: float, lines: tuple[tuple[str, str], ...] = ()) -> Refusal:
    headers = (_retry_after(retry_after_seconds), *lines)
    return Refusal(429, code, message, type="rate_limit_error", headers=headers)


def _retry_after(seconds: float) -> tuple[str, str]:
    return "Retry-After", str(max(1, math.ceil(seconds)))


def _shown(alias: str) -> str:
    return alias if len(alias) <= _SHOWN_CHARACTERS else alias[:_SHOWN_CHARACTERS] + "…"
