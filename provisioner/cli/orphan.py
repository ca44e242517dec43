"""`tenantry orphan`: what is left of endpoints that nobody has any more."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_json, print_table, say
from provisioner.cli.session import collect

app = typer.Typer(name="orphan")


@app.command("list")
def list_orphans(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List what stands for endpoints that are gone, as a worker found it within the last minutes.

    Example: tenantry orphan list
    """
    from provisioner.client import orphan_calls

    orphans = collect(orphan_calls.list_orphans(tenant))
    if output is Format.JSON:
        print_json([found.model_dump(mode="json", by_alias=True) for found in orphans])
        return
    print_table(
        ("endpoint", "tenant", "kind", "name", "place", "since"),
        [(o.endpoint, o.tenant, o.kind, o.name, o.place, o.since) for o in orphans],
    )
    if orphans:
        say("hint: `tenantry endpoint reclaim ENDPOINT` removes them")
