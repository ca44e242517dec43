"""The option that brings models, tiers and runtimes of a provider's own beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CatalogOption = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        metavar="DIR",
        envvar="TENANTRY_CATALOG",
        help="Models, tiers and runtimes of your own: a folder with models/, templates/ or applications/runtimes/.",
    ),
]
