"""`tenantry tier`: the tiers of the template pack, read offline; publishing them to vCluster Platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.output import Format, OutputOption, print_fields, print_json, print_table, print_tables, say

if TYPE_CHECKING:
    from provisioner.settings import Settings
    from provisioner.wiring.publishing import Proposal

app = typer.Typer(name="tier")


@app.command("list")
def list_tiers(catalog: CatalogOption = None, output: OutputOption = Format.TABLE) -> None:
    """List the tiers of the pack.

    Example: tenantry tier list -o json
    """
    from provisioner.catalog.loader import load_catalog

    tiers = [tier for _, tier in sorted(load_catalog(overlay=catalog).tiers.items())]
    if output is Format.JSON:
        print_json([tier.model_dump(mode="json", by_alias=True) for tier in tiers])
        return
    print_table(
        ("tier", "version", "tenancy", "nodes", "runtimes", "description"),
        [(t.name, t.version, t.tenancy, t.node_mode, ", ".join(t.runtimes), t.description) for t in tiers],
    )


@app.command("show")
def show_tier(
    name: Annotated[str, typer.Argument(help="Name of the tier.")],
    catalog: CatalogOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one tier with its options, limits and quota, and the regions whose providers have what it needs.

    Example: tenantry tier show dedicated
    """
    from provisioner.admission import regions_of
    from provisioner.cli.lookup import known
    from provisioner.settings import read_settings
    from provisioner.wiring import load_planning_offer, site_note

    settings = read_settings()
    offer, site = load_planning_offer(settings, overlay=catalog)
    if note := site_note(settings):
        say(note)
    tier = known("tier", name, offer.tiers)
    fields = {**tier.model_dump(mode="json", by_alias=True), "regions": list(regions_of(tier, site))}
    if output is Format.JSON:
        print_json(fields)
    else:
        print_fields(fields)


@app.command("publish")
def publish_tier(
    names: Annotated[list[str] | None, typer.Argument(help="Names of tiers; every tier when left out.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change and write nothing.")] = False,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that others own, instead of refusing.")
    ] = False,
) -> None:
    """Publish tiers to vCluster Platform by server-side apply, where Pulumi is not wanted.

    Says first what would change and what that does to endpoints, by a dry run of the server. Fields that others own are
    left to them, and only what was published with the tier and no version of its template names any more is removed.

    \b
    Examples:
      tenantry tier publish --dry-run
      tenantry tier publish dedicated
    """
    import asyncio

    from provisioner.settings import read_settings

    asyncio.run(_publish(read_settings(), names or (), dry_run=dry_run, force=force_conflicts))


async def _publish(settings: Settings, names: Sequence[str], *, dry_run: bool, force: bool) -> None:
    from provisioner.wiring import site_note
    from provisioner.wiring.publishing import open_publisher

    async with open_publisher(settings) as publisher:
        if note := site_note(settings):
            say(note)
        proposals = await publisher.propose(names, force=force, doing=lambda text: say(f"{text} …"))
        for proposal in proposals:
            _print_proposal(proposal)
        for proposal in () if dry_run else proposals:
            await publisher.publish(proposal)
            say(str(proposal))


def _print_proposal(proposal: Proposal) -> None:
    from provisioner.preview.printed import changes_table

    changes = list(proposal.differences())
    told = f"{len(proposal.publication.changes)} objects" + ("" if changes else ", nothing changes")
    print(f"tier {proposal.tier} {proposal.version} on {proposal.control_plane}: {told}")
    print_tables(changes_table(f"changes of {proposal.tier}", changes))


@app.command("freeze")
def freeze_tier(
    name: Annotated[str, typer.Argument(help="Name of the tier.")],
    catalog: CatalogOption = None,
) -> None:
    """Keep the tier's version as it is published now, so that endpoints may go on pinning it when the next one comes.

    Writes files to commit beside the tier's templates, in the folder of TENANTRY_CATALOG or of this checkout. Then
    raise `version` in tier.yaml.

    Example: tenantry tier freeze dedicated
    """
    from dataclasses import replace

    from provisioner.settings import read_settings
    from provisioner.wiring import site_note
    from provisioner.wiring.freezing import freeze_tier as freeze

    settings = read_settings()
    if settings.site.exists() and (note := site_note(settings)):  # no site stands in for the one that is published
        say(note)
    for path in freeze(replace(settings, catalog=catalog or settings.catalog), name):
        say(f"kept {path}")
