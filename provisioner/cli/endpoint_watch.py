"""`tenantry endpoint watch`: what happens to endpoints, as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from provisioner.cli.output import Format, OutputOption
from provisioner.cli.session import each

if TYPE_CHECKING:
    from provisioner.client.watch_calls import EndpointEvent


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch")(watch_endpoints)


def watch_endpoints(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="POSITION", help="Only what came later than this `position`.")
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell every endpoint, then every change of one, until Ctrl-C. A connection that breaks is made again.

    With `-o json` one object a line: `what` is changed, removed, synced once all were told, or reset before all are
    told anew; `position` is for --after.

    Example: tenantry endpoint watch --tenant acme
    """
    from provisioner.client import watch_calls

    for event in each(watch_calls.watch_endpoints(tenant, after=after)):
        line = _json(event) if output is Format.JSON else _line(event)
        if line:
            print(line, flush=True)


def _line(event: EndpointEvent) -> str:
    """What people read; nothing for what only programs need."""
    if event.removed is not None:
        return f"{event.removed:<15} {event.tenant or '':<23} removed"
    if event.endpoint is None:
        return ""
    found = event.endpoint
    name = f"{found.tenant}/{found.name}" if hasattr(found, "tenant") else found.name
    why = ": ".join(filter(None, (found.reason, found.message)))
    return f"{found.id:<15} {name:<23} {found.phase:<9} {found.stage or '':<15} {why}".rstrip()


def _json(event: EndpointEvent) -> str:
    import json

    told: dict[str, Any] = {"what": event.what, "position": event.position}
    if event.endpoint is not None:
        told["endpoint"] = event.endpoint.model_dump(mode="json", by_alias=True)
    if event.removed is not None:
        told |= {"id": event.removed, "tenant": event.tenant}
    return json.dumps(told, ensure_ascii=False)
