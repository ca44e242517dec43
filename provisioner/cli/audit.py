"""`tenantry audit`: who changed what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.moments import SinceOption, UntilOption, moment_of
from provisioner.cli.options import add_command
from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_text, say
from provisioner.cli.session import each, send
from provisioner.domain.errors import RejectedError

if TYPE_CHECKING:
    from provisioner.client.audit_calls import Wanted
    from provisioner.domain.posture import Difference, Fact
    from provisioner.wire.posture import FactView

EXIT_DIFFERENT = 3

_CONCERN_WIDTH, _VALUE_WIDTH = 30, 40
"""Characters in a line of a posture, so that the whole fits into 120."""

app = typer.Typer(name="audit")

TenantOption = Annotated[str | None, typer.Option("--tenant", help="Only what belongs to this tenant.")]
ActorOption = Annotated[str | None, typer.Option("--actor", help="Only this one's, for example admin:bootstrap.")]
ActionOption = Annotated[str | None, typer.Option("--action", help="Only this, for example endpoint.delete.")]
SubjectOption = Annotated[str | None, typer.Option("--subject", help="Only about this one, for example ep-….")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="The newest, at most so many.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events."""

    since: SinceOption = None
    until: UntilOption = None
    tenant: TenantOption = None
    actor: ActorOption = None
    action: ActionOption = None
    subject: SubjectOption = None

    def wanted(self) -> Wanted:
        """The same, as the API is asked."""
        from provisioner.client.audit_calls import Wanted

        return Wanted(
            since=moment_of(self.since),
            until=moment_of(self.until),
            tenant=self.tenant,
            actor=self.actor,
            action=self.action,
            subject=self.subject,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Filter):
    """How many of them, and how they are printed."""

    limit: LimitOption = 100
    output: OutputOption = Format.TABLE


def list_events(options: Listing) -> None:
    """List what was changed by whom, the newest first.

    Example: tenantry audit list --since 24h --tenant acme --action endpoint.delete
    """
    from provisioner.client import audit_calls

    found = list(islice(each(audit_calls.list_events(options.wanted())), options.limit + 1))
    events = found[: options.limit]
    if len(found) > options.limit:
        say(f"hint: these are the newest {options.limit}; raise --limit, or see `tenantry audit export`")
    if options.output is Format.JSON:
        print_json([event.model_dump(mode="json", by_alias=True) for event in events])
        return
    print_table(
        ("event", "at", "actor", "action", "tenant", "subject", "outcome", "operation"),
        [(e.id, e.at, e.actor, e.action, e.tenant, e.subject, e.outcome, e.operation) for e in events],
    )


def export_events(options: Filter) -> None:
    """Print every event until now, the oldest first, as JSON lines.

    Example: tenantry audit export --since 2026-01-01 > audit.jsonl
    """
    from provisioner.client import audit_calls

    for event in each(audit_calls.export_events(options.wanted())):
        print_text(event.model_dump_json(by_alias=True))


@app.command("posture")
def review_posture(
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What was reviewed before: print what differs, exit 3 if it does."),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say how open the installation is: settings, every key that may be used, endpoints that need none, fallbacks
    outside, and what speaks against each.

    \b
    Review it once and keep it; from then on look at what changed:
      tenantry audit posture -o json > posture.json
      tenantry audit posture --baseline posture.json
    """
    from provisioner.client import audit_calls
    from provisioner.domain.posture import Fact, compare_postures

    reviewed = None if baseline is None else _read_posture(baseline)
    found = send(audit_calls.get_posture())
    if reviewed is not None:
        facts = [Fact(**dict(fact)) for fact in found.facts]
        _print_differences(compare_postures(reviewed, facts), output)
    elif output is Format.JSON:
        print_json(found.model_dump(mode="json", by_alias=True))
    else:
        print_table(("area", "name", "concern", "value"), [row for fact in found.facts for row in _rows(fact)])


def _rows(fact: FactView) -> Iterator[tuple[str, ...]]:
    """A fact as it is printed: what is long goes on in the lines below."""
    concern, value = (
        wrap(text, width, break_on_hyphens=False)
        for text, width in ((fact.concern, _CONCERN_WIDTH), (fact.value, _VALUE_WIDTH))
    )
    return zip_longest((fact.area,), (fact.name,), concern, value, fillvalue="")


def _read_posture(file: Path) -> list[Fact]:
    from provisioner.domain.posture import Fact
    from provisioner.wire.posture import PostureView

    try:
        reviewed = PostureView.model_validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no posture"
        raise RejectedError(
            f"reading the baseline `{file}`: {why}",
            reason="BadBaseline",
            hint="write one with `tenantry audit posture -o json`",
        ) from error
    return [Fact(**dict(fact)) for fact in reviewed.facts]


def _print_differences(differences: tuple[Difference, ...], output: Format) -> None:
    """Print what differs; exit 3 where anything does."""
    if output is Format.JSON:
        print_json([asdict(difference) for difference in differences])
    else:
        for line in (line for difference in differences for line in _told(difference)):
            print_text(line)
    if differences:
        raise typer.Exit(EXIT_DIFFERENT)
    say("nothing differs from the baseline")


def _told(difference: Difference) -> list[str]:
    sides = {"-": difference.before, "+": difference.after}
    return [
        f"{sign} {fact.area} {fact.name}: {fact.value}" + (f" (concern: {fact.concern})" if fact.concern else "")
        for sign, fact in sides.items()
        if fact is not None
    ]


add_command(app, "list", Listing, list_events)
add_command(app, "export", Filter, export_events)
