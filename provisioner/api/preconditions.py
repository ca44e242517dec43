"""Changes on condition: a caller says which state of a thing it has read, and a change made of an older one is refused.

The entity tag of an endpoint is the version of its row, which grows with every change, whoever makes it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import ConflictError

ANY = "*"

IfMatch = Annotated[
    str | None, Header(max_length=200, description="the `ETag` of what was read; the change is refused if it is old")
]


def entity_tag(endpoint: Endpoint) -> str:
    """The tag of the endpoint's present state."""
    return f'"{endpoint.version}"'


def require_match(endpoint: Endpoint, if_match: str | None) -> None:
    """Let a change pass that names no state, any, or the present one. ConflictError (`PreconditionFailed`)."""
    wanted = {tag.strip() for tag in (if_match or ANY).split(",")}
    if wanted.isdisjoint({ANY, entity_tag(endpoint)}):
        raise ConflictError(
            f"changing `{endpoint.id}`: it was changed since the state that If-Match names",
            reason="PreconditionFailed",
            hint="read it again, decide again, and send the new ETag",
        )
