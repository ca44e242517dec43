"""`tenantry model`: the models of a server or of the catalog's files, and their way into a server and out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.operation import IdempotencyOption, new_idempotency_key
from provisioner.cli.output import (
    Format,
    OutputOption,
    print_error,
    print_json,
    print_table,
    print_text,
    print_view,
    say,
)
from provisioner.cli.session import collect, send
from provisioner.domain.errors import RejectedError
from provisioner.settings import names_server

if TYPE_CHECKING:
    from pydantic import BaseModel

    from provisioner.catalog.model import Model

app = typer.Typer(name="model")


@app.command("list")
def list_models(catalog: CatalogOption = None, output: OutputOption = Format.TABLE) -> None:
    """List the models that can be served: of the server that TENANTRY_URL names, and without one, or with --catalog, of
    files.

    Example: tenantry model list
    """
    from provisioner.catalog.loader import load_catalog
    from provisioner.client import model_calls

    if _asks_server(catalog):
        found = collect(model_calls.list_models())
        rows = [(*_row(one.model), one.version, one.origin) for one in found]
        _print_models(found, (*_COLUMNS, "version", "origin"), rows, output)
    else:
        models = [model for _, model in sorted(load_catalog(overlay=catalog).models.items())]
        _print_models(models, _COLUMNS, [_row(model) for model in models], output)


@app.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="Id of the model, as `tenantry model list` prints it.")],
    catalog: CatalogOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one model: master, card and the numbers that planning uses; with its versions where a server is asked, which
    is as for `model list`.

    Example: tenantry model show gemma-3-270m -o json
    """
    from provisioner.catalog.loader import load_catalog
    from provisioner.cli.lookup import known
    from provisioner.client import model_calls

    if _asks_server(catalog):
        print_view(send(model_calls.get_model(name)), output)
    else:
        print_view(known("model", name, load_catalog(overlay=catalog).models), output)


def _asks_server(catalog: Path | None) -> bool:
    return catalog is None and names_server()


_COLUMNS = ("model", "kind", "runtime", "gpus", "weights", "licence")


def _row(model: Model) -> tuple[str | int, ...]:
    return (
        model.id,
        model.kind,
        model.master.runtime,
        model.master.hardware.gpus,
        f"{model.architecture.weights_bytes / 1e9:.1f} GB",
        model.card.licence.name,
    )


def _print_models(
    found: Sequence[BaseModel], columns: Sequence[str], rows: Sequence[Sequence[object]], output: Format
) -> None:
    if output is Format.JSON:
        print_json([one.model_dump(mode="json", by_alias=True) for one in found])
    else:
        print_table(columns, rows)


@app.command("export")
def export_models(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for `--catalog`; files go below models/.")],
    models: Annotated[
        list[str] | None, typer.Argument(help="Ids of models; without any, all that were changed over the API.")
    ] = None,
) -> None:
    """Write models as the server has them to files, which `--catalog DIR` and TENANTRY_CATALOG read.

    Plans, previews and stacks then see what the server sees. A file that is there is replaced.

    \b
    Examples:
      tenantry model export --out catalog/
      tenantry model export acme/chat --out catalog/
    """
    files = _exported(models or ())
    for path in _write_models(out / "models", files):
        print_text(str(path))
    if not files:
        say("hint: no model was changed over the API; name one to export it all the same")


@app.command("import")
def import_model(
    file: Annotated[Path, typer.Argument(help="File of a model, YAML or JSON, or - for standard input.")],
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Bring a model's file into the server: a new model, or the next version of one that is there. Says which it was,
    and what of it a file of the catalog contradicts.

    Example: tenantry model import catalog/models/acme--chat.yaml
    """
    from provisioner.cli.requestfile import read_request
    from provisioner.client import model_calls

    wanted = read_request(file, hint="`tenantry model export ID --out DIR` writes a complete one")
    key = idempotency_key or new_idempotency_key()
    try:
        made = send(model_calls.import_model(wanted.body, idempotency_key=key))
    except RejectedError as error:
        print_error(error, file=wanted.name, lines=wanted.lines)
        raise typer.Exit(1) from error
    print_view(made, output)
    say(f"{made.id}: {made.outcome}, version {made.version}")
    for finding in made.findings:
        say(f"{finding.severity}: {finding.message}" + (f"; hint: {finding.hint}" if finding.hint else ""))


def _exported(named: Sequence[str]) -> dict[str, bytes]:
    """The files of these models by id, or of all whose newest version is the API's."""
    from provisioner.client import model_calls

    changed = [] if named else [one.id for one in collect(model_calls.list_models()) if one.origin == "api"]
    return {model: send(model_calls.export_model(model)) for model in (*named, *changed)}


def _write_models(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    from provisioner.catalog.checks import model_file

    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for model, content in files.items():
            path = folder / model_file(model)
            path.write_bytes(content)
            written.append(path)
    except OSError as error:
        raise RejectedError(
            f"writing models: {(error.strerror or 'it cannot be written').lower()}: {folder}",
            reason="FolderNotWritten",
            hint="name a folder that you may write to",
        ) from error
    return written
