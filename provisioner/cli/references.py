"""Endpoints as command lines name them, completed from what the API has."""

from __future__ import annotations

from typing import Annotated

import typer

_OFFERED = 100


def offered_references(incomplete: str) -> list[str]:
    """`tenant/name` of endpoints that begin so, for the shell: nothing where the API does not answer."""
    from provisioner.cli.session import send
    from provisioner.client import visible_calls
    from provisioner.domain.errors import TenantryError

    tenant = incomplete.partition("/")[0] if "/" in incomplete else None
    try:
        page = send(visible_calls.first_endpoints(tenant, limit=_OFFERED))
    except TenantryError:
        return []
    names = [f"{found.tenant}/{found.name}" if hasattr(found, "tenant") else found.id for found in page.items]
    return [name for name in names if name.startswith(incomplete)]


ReferenceArgument = Annotated[
    str, typer.Argument(help="ep-… or tenant/name.", autocompletion=offered_references, show_default=False)
]
