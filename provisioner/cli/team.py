"""`tenantry team`: the parts of a tenant."""

from __future__ import annotations

from typing import Annotated

import typer

from provisioner.cli.operation import IdempotencyOption, MatchOption, new_idempotency_key
from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say
from provisioner.cli.session import collect, send
from provisioner.domain.errors import RejectedError

app = typer.Typer(name="team")

TeamArgument = Annotated[str, typer.Argument(help="tenant/name.")]


@app.command("create")
def create_team(
    team: TeamArgument,
    display_name: Annotated[str | None, typer.Option(help="Name for people; the name when left out.")] = None,
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create a team, to which endpoints and keys of its tenant may belong.

    Example: tenantry team create acme/research
    """
    from provisioner.client import team_calls

    tenant, name = _parts(team)
    key = idempotency_key or new_idempotency_key()
    print_view(send(team_calls.create_team(tenant, name, display_name=display_name, idempotency_key=key)), output)


@app.command("list")
def list_teams(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List teams.

    Example: tenantry team list --tenant acme
    """
    from provisioner.client import team_calls

    teams = collect(team_calls.list_teams(tenant))
    if output is Format.JSON:
        print_json([team.model_dump(mode="json", by_alias=True) for team in teams])
        return
    print_table(
        ("team", "display name", "created"), [(f"{t.tenant}/{t.name}", t.display_name, t.created_at) for t in teams]
    )
    if not teams:
        say("hint: there is none yet; `tenantry team create TENANT/NAME` makes one")


@app.command("show")
def show_team(team: TeamArgument, output: OutputOption = Format.TABLE) -> None:
    """Show one team.

    Example: tenantry team show acme/research
    """
    from provisioner.client import team_calls

    print_view(send(team_calls.get_team(*_parts(team))), output)


@app.command("rename")
def rename_team(
    team: TeamArgument,
    display_name: Annotated[str, typer.Argument(help="Name for people.")],
    if_match: MatchOption = None,
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give a team another name for people.

    Example: tenantry team rename acme/research "Research and development"
    """
    from provisioner.client import team_calls

    tenant, name = _parts(team)
    key = idempotency_key or new_idempotency_key()
    call = team_calls.rename_team(tenant, name, display_name=display_name, idempotency_key=key, if_match=if_match)
    print_view(send(call), output)


@app.command("delete")
def delete_team(team: TeamArgument, idempotency_key: IdempotencyOption = None) -> None:
    """Delete a team that has no endpoints and no keys.

    Example: tenantry team delete acme/research
    """
    from provisioner.client import team_calls

    tenant, name = _parts(team)
    send(team_calls.delete_team(tenant, name, idempotency_key=idempotency_key or new_idempotency_key()))
    say(f"deleted team {team}")


def _parts(team: str) -> tuple[str, str]:
    """Tenant and name. RejectedError."""
    tenant, slash, name = team.partition("/")
    if not (tenant and slash and name) or "/" in name:
        raise RejectedError(f"reading the team: not tenant/name: `{team}`", reason="BadTeam", hint="acme/research")
    return tenant, name
