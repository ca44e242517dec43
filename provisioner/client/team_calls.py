"""Requests about teams, the parts of a tenant. Pure."""

from __future__ import annotations

from provisioner.client.call import Call, Flow, change, every, get, path_of, present
from provisioner.wire.team import TeamView


def create_team(tenant: str, name: str, *, display_name: str | None = None, idempotency_key: str) -> Call[TeamView]:
    """Make a team of a tenant."""
    body = present({"tenant": tenant, "name": name, "displayName": display_name})
    return change("POST", "/teams", TeamView, idempotency_key=idempotency_key, body=body)


def list_teams(tenant: str | None = None) -> Flow[TeamView]:
    """Every team, or a tenant's."""
    return every(TeamView, "/teams", {"tenant": tenant})


def get_team(tenant: str, name: str) -> Call[TeamView]:
    """One team."""
    return get(TeamView, path_of("teams", f"{tenant}/{name}"))


def rename_team(
    tenant: str, name: str, *, display_name: str, idempotency_key: str, if_match: str | None = None
) -> Call[TeamView]:
    """Give a team another name for people."""
    path, body = path_of("teams", f"{tenant}/{name}"), {"displayName": display_name}
    return change("PATCH", path, TeamView, idempotency_key=idempotency_key, body=body, if_match=if_match)


def delete_team(tenant: str, name: str, *, idempotency_key: str) -> Call[None]:
    """Give a team up that has no endpoints and no keys."""
    path = path_of("teams", f"{tenant}/{name}")
    headers = {"Idempotency-Key": idempotency_key}
    return Call(method="DELETE", path=path, read=lambda _: None, headers=headers)
