"""Forms of what may be chosen when an endpoint is warmed, restarted, drained, or given another key. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from provisioner.catalog.entry import Entry


class EmptyForm(Entry):
    """Nothing to choose."""


class DrainForm(Entry):
    """How long requests that run may go on."""

    deadline_seconds: Annotated[
        int | None,
        Field(ge=0, le=120, description="what requests that run have to end, 0 to 120; 120 where it is left out"),
    ] = None


class RotateKeyForm(Entry):
    """How long the old keys go on, and which one it is about."""

    overlap_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            le=7 * 86400,
            description="how long the old keys may be used beside the new one; 300 where it is left out",
        ),
    ] = None
    key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=63,
            description="id of the one key to replace; all that are bound to this endpoint alone where it is left out",
        ),
    ] = None
