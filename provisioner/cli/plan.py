"""`tenantry plan`: what creating an endpoint would do, decided offline from catalog and site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_error, print_fields, print_json
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId

PLAN_ID = EndpointId("ep-plan")
"""A plan is not an endpoint yet: this id stands where the real one will, so the same input gives the same bytes."""

FileOption = Annotated[Path, typer.Option("--file", "-f", help="REQUEST.yaml, or - for standard input.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(file: FileOption, output: OutputOption = Format.TABLE) -> None:
    """Print what creating an endpoint would do.

    Or everything that is wrong with the request. Creates nothing.

    Example: tenantry plan -f REQUEST.yaml -o json
    """
    import dataclasses

    from provisioner.admission import parse_request, plan_endpoint
    from provisioner.catalog.loader import load_catalog, load_site
    from provisioner.cli.requestfile import read_request
    from provisioner.settings import read_settings

    request = read_request(file)
    catalog, site = load_catalog(), load_site(read_settings().site)
    try:
        planned = plan_endpoint(parse_request(request.body), catalog=catalog, site=site, endpoint_id=PLAN_ID)
    except RejectedError as error:
        print_error(error, file=request.name, lines=request.lines)
        raise typer.Exit(1) from error
    data = dataclasses.asdict(planned)
    print_json(data) if output is Format.JSON else print_fields(data)
