"""`tenantry model`: the models of the catalog, read offline."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view

app = typer.Typer(name="model", help="Models: serving defaults (master) and provenance (card).", no_args_is_help=True)


@app.command("list")
def list_models(catalog: CatalogOption = None, output: OutputOption = Format.TABLE) -> None:
    """List the models that can be served.

    Example: tenantry model list
    """
    from provisioner.catalog.loader import load_catalog

    models = [model for _, model in sorted(load_catalog(overlay=catalog).models.items())]
    if output is Format.JSON:
        print_json([model.model_dump(mode="json", by_alias=True) for model in models])
        return
    print_table(
        ("model", "kind", "runtime", "gpus", "weights", "licence"),
        [
            (
                model.id,
                model.kind,
                model.master.runtime,
                model.master.hardware.gpus,
                f"{model.architecture.weights_bytes / 1e9:.1f} GB",
                model.card.licence.name,
            )
            for model in models
        ],
    )


@app.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="Id of the model, as `tenantry model list` prints it.")],
    catalog: CatalogOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one model: master, card and the numbers that planning uses.

    Example: tenantry model show gemma-3-270m -o json
    """
    from provisioner.catalog.loader import load_catalog
    from provisioner.cli.lookup import known

    print_view(known("model", name, load_catalog(overlay=catalog).models), output)
