"""`tenantry project`: what a tenant may use of a tier."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view
from provisioner.cli.session import collect, send

app = typer.Typer(name="project")


@app.command("list")
def list_projects(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List projects with their node types and quotas.

    Example: tenantry project list --tenant acme
    """
    from provisioner.client import project_calls

    projects = collect(project_calls.list_projects(tenant))
    if output is Format.JSON:
        print_json([project.model_dump(mode="json", by_alias=True) for project in projects])
        return
    print_table(
        ("project", "tenant", "tier", "ready", "node types", "quotas"),
        [
            (
                p.name,
                p.tenant,
                p.tier,
                p.ready,
                "any" if p.allowed_node_types is None else ", ".join(p.allowed_node_types) or "none",
                ", ".join(f"{name}={most}" for name, most in sorted(p.quotas.items())),
            )
            for p in projects
        ],
    )


@app.command("show")
def show_project(
    name: Annotated[str, typer.Argument(help="Name of the project.")], output: OutputOption = Format.TABLE
) -> None:
    """Show one project: its control planes, templates, node types and quotas.

    Example: tenantry project show acme-dedicated
    """
    from provisioner.client import project_calls

    print_view(send(project_calls.get_project(name)), output)
