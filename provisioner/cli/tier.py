"""`tenantry tier`: the tiers of the template pack, read offline; publishing them to vCluster Platform."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say

app = typer.Typer(name="tier", help="Tiers: isolation, limits and promise sold.", no_args_is_help=True)


@app.command("list")
def list_tiers(output: OutputOption = Format.TABLE) -> None:
    """List the tiers of the pack.

    Example: tenantry tier list -o json
    """
    from provisioner.catalog.loader import load_catalog

    tiers = [tier for _, tier in sorted(load_catalog().tiers.items())]
    if output is Format.JSON:
        print_json([tier.model_dump(mode="json", by_alias=True) for tier in tiers])
        return
    print_table(
        ("tier", "version", "tenancy", "nodes", "runtimes", "description"),
        [(t.name, t.version, t.tenancy, t.node_mode, ", ".join(t.runtimes), t.description) for t in tiers],
    )


@app.command("show")
def show_tier(
    name: Annotated[str, typer.Argument(help="Name of the tier.")], output: OutputOption = Format.TABLE
) -> None:
    """Show one tier with its options, limits and quota.

    Example: tenantry tier show dedicated
    """
    from provisioner.catalog.loader import load_catalog
    from provisioner.cli.lookup import known

    print_view(known("tier", name, load_catalog().tiers), output)


@app.command("publish")
def publish_tier(
    names: Annotated[list[str] | None, typer.Argument(help="Names of tiers; every tier when left out.")] = None,
) -> None:
    """Publish tiers to vCluster Platform by server-side apply, where Pulumi is not wanted.

    Example: tenantry tier publish dedicated
    """
    import asyncio

    from provisioner.settings import read_settings
    from provisioner.wiring import publish_tiers

    for line in asyncio.run(publish_tiers(read_settings(), tuple(names or ()))):
        say(line)
