"""Changes on condition: a caller says which state of a thing it has read, and a change made of an older one is refused.

The entity tag of an endpoint is the version of its row, which grows with every change, whoever makes it; that of a team
or a tenant stands for what of it changes.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import ConflictError

ANY = "*"

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match", max_length=200, description="the `ETag` of what was read; the change is refused if it is old"
    ),
]


def entity_tag(endpoint: Endpoint) -> str:
    """The tag of the endpoint's present state."""
    return f'"{endpoint.version}"'


def require_match(endpoint: Endpoint, if_match: str | None) -> None:
    """Let a change pass that names no state, any, or the present one. ConflictError (`PreconditionFailed`)."""
    require_state(endpoint.id, str(endpoint.version), if_match)


def require_state(name: str, state: str, if_match: str | None) -> None:
    """The same of anything that is called `name` and whose present state is this."""
    states = wanted_states(if_match)
    if states is not None and state not in states:
        raise ConflictError(
            f"changing `{name}`: it was changed since the state that If-Match names",
            reason="PreconditionFailed",
            hint="read it again, decide again, and send the new ETag",
        )


def wanted_states(if_match: str | None) -> frozenset[str] | None:
    """The states of which one has to be the present one, as tags name them; None where any will do. A header that is
    empty names none: whoever sends it meant a state, and lost it."""
    tags = {tag.strip() for tag in (ANY if if_match is None else if_match).split(",")}
    return None if ANY in tags else frozenset(tag[1:-1] for tag in tags if tag[:1] == tag[-1:] == '"')
