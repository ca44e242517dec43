"""The body of one request: JSON, held until it is whole, or a form, passed on as it comes. Begun by `reader`."""

from __future__ import annotations

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.body.form_parts import is_multipart
from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.body.memory import BodyMemory

RequestBody = JsonBody | FormBody


def begin_body(
    content_type: bytes | None, limit_bytes: int, memory: BodyMemory, announced_bytes: int | None
) -> RequestBody:
    """The body of a request with this content type, of which nothing has arrived; `announced_bytes` is its length, if
    that was given. Raises `RefusedError` (400) for a form that cannot be read."""
    if content_type is None or content_type == b"application/json" or not is_multipart(content_type):
        return JsonBody(limit_bytes, memory)
    return FormBody(content_type, limit_bytes, memory, announced_bytes)
