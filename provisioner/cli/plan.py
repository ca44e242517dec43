"""`tenantry plan`: what creating an endpoint would do, decided offline from catalog and site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provisioner.cli.output import Format, OutputOption, print_error, print_view
from provisioner.domain.errors import RejectedError

FileOption = Annotated[Path, typer.Option("--file", "-f", help="REQUEST.yaml, or - for standard input.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(file: FileOption, output: OutputOption = Format.TABLE) -> None:
    """Print what creating an endpoint would do.

    Or everything that is wrong with the request. Creates nothing.

    Example: tenantry plan -f REQUEST.yaml -o json
    """
    from provisioner.admission import admit_endpoint, preview_id
    from provisioner.cli.requestfile import read_request
    from provisioner.settings import read_settings
    from provisioner.wire.plan import PlanView
    from provisioner.wiring import load_offer

    request = read_request(file)
    catalog, site = load_offer(read_settings())
    try:
        _, planned = admit_endpoint(request.body, catalog=catalog, site=site, endpoint_id=preview_id(request.body))
    except RejectedError as error:
        print_error(error, file=request.name, lines=request.lines)
        raise typer.Exit(1) from error
    print_view(PlanView.model_validate(planned, from_attributes=True), output)
