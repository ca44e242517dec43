"""`tenantry preview`: what a change of templates does to every tier and to the endpoints that run, before it merges."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.options import add_command
from provisioner.cli.output import print_tables, print_text, say
from provisioner.domain.errors import RejectedError
from provisioner.preview.printed import Output
from provisioner.preview.threshold import FailOn

_SERVER = "server"
_QUIET_SECONDS = 1.0


def _tiers(incomplete: str) -> list[str]:
    """Names of tiers for completion: those of the working tree where it holds a pack, else the installed ones."""
    from provisioner.catalog.pack import pack_root

    folder = next(found for found in (Path("templates"), pack_root() / "templates") if found.is_dir())
    return sorted(path.parent.name for path in folder.glob(f"{incomplete}*/tier.yaml"))


BaseOption = Annotated[
    str | None, typer.Option(metavar="REF", help="What to compare with; where the head left the default branch.")
]
HeadOption = Annotated[
    str | None, typer.Option(metavar="REF", help="The change; the working tree with all that is not committed.")
]
TierOption = Annotated[
    list[str] | None, typer.Option("--tier", metavar="TIER", help="Only this tier.", autocompletion=_tiers)
]
AgainstOption = Annotated[
    str | None,
    typer.Option(metavar="FILE|server", help="What runs: a file of `tenantry endpoint export`, or the server itself."),
]
SiteOption = Annotated[Path | None, typer.Option(metavar="FILE", help="site.yaml; TENANTRY_SITE, the installation's.")]
FailOption = Annotated[FailOn, typer.Option(help="What ends with a code other than 0.")]
FormatOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the report.")]
VersionOption = Annotated[
    str | None, typer.Option("--kubernetes-version", help="API servers' version, such as 1.34; the site's.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command."""

    base: BaseOption = None
    head: HeadOption = None
    tier: TierOption = None
    against: AgainstOption = None
    site: SiteOption = None
    catalog: CatalogOption = None
    kubernetes_version: VersionOption = None
    fail_on: FailOption = FailOn.DISRUPTIVE
    output: FormatOption = Output.TERMINAL


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, "preview", Options, preview)


def preview(options: Options) -> None:
    """Show what a change does to every tier and to the endpoints that run.

    Renders both sides of a git repository for every tier, its reference cases and the endpoints of `--against`, and
    compares them. Nothing is checked out and nothing is applied. Ends with 0 when nothing is disturbed, 1 when
    something could not be previewed, 3 when something is disruptive, 4 with new errors.

    \b
    Examples:
      tenantry preview
      tenantry preview --base origin/main --against fleet.json
      tenantry preview --base HEAD^1 --head HEAD -o markdown --fail-on finding
    """
    from provisioner.settings import read_settings
    from provisioner.wiring.preview import Question, Talk, open_preview

    question = Question(
        base=options.base,
        head=options.head,
        tiers=tuple(options.tier or ()),
        fleet=_fleet(options.against),
        site=options.site,
        catalog=options.catalog,
        kubernetes=options.kubernetes_version,
    )
    talk = Talk(note=say, doing=_Progress().tell)
    gc.disable()  # a preview has ended before its garbage is worth looking for
    try:
        with open_preview(read_settings(), question, folder=Path.cwd(), talk=talk) as change:
            shown = change.printed(options.output, options.fail_on)
    finally:
        gc.enable()
    print_text(shown.text)
    print_tables(shown.tables)
    if shown.status:
        raise typer.Exit(shown.status)


class _Progress:
    """Tells what is being done, once a second at most and not before the first has passed."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def tell(self, doing: str) -> None:
        """Something is being done."""
        if time.monotonic() - self._told > _QUIET_SECONDS:
            self._told = time.monotonic()
            say(f"{doing} …")


def _fleet(against: str | None) -> tuple[bytes, str] | None:
    """What runs, as fleet.json says it, and where that comes from."""
    from provisioner.client import endpoint_calls

    if against is None:
        return None
    if against == _SERVER:
        from provisioner.cli.session import send

        say("asking the server what runs …")
        fleet = send(endpoint_calls.get_fleet())
        return fleet.model_dump_json(by_alias=True, exclude_none=True).encode(), "the server's fleet"
    from provisioner.preview.fleet import MAX_BYTES

    try:
        with Path(against).open("rb") as stream:
            return stream.read(MAX_BYTES + 1), against
    except OSError as error:
        raise RejectedError(
            f"reading what runs: {(error.strerror or str(error)).lower()}: {against}",
            reason="NoFleet",
            hint="write the file with `tenantry endpoint export`, or ask the server: `--against server`",
        ) from error
