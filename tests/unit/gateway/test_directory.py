"""Who may use which route: keys, teams, and callers without a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.domain.snapshot import KeyDigest, Route
from provisioner.gateway.directory import Directory
from provisioner.gateway.refusal import RefusedError
from tests.gateway.stub import SECRET, make_key, make_route, make_snapshot

OPEN = replace(make_route(alias="open"), is_open=True, hostname="open.example.com")
EVERYBODYS = replace(make_route(alias="general", tenant=""), is_open=True)


def status(directory: Directory, key: KeyDigest, alias: str) -> int:
    """Of the answer that a request for `alias` begins with."""
    try:
        directory.route(key, alias)
    except RefusedError as error:
        return error.refusal.status
    return 200


def names(routes: list[Route]) -> list[str]:
    return [route.alias for route in routes]


def test_caller_without_a_key_reaches_an_open_route_by_its_host_name_and_no_other() -> None:
    """Ledger: GW-10."""
    directory = Directory(make_snapshot(OPEN, make_route(alias="closed")))
    stranger = directory.stranger(b"Open.Example.com:8080")
    assert directory.route(stranger, "open") is OPEN
    assert (status(directory, stranger, "closed"), status(directory, stranger, "nowhere")) == (401, 401)
    assert names(directory.visible(stranger)) == ["open"]
    for host in (None, b"", b"closed.example.com", b"acme"):
        with pytest.raises(RefusedError) as refused:
            directory.stranger(host)
        assert refused.value.refusal.status == 401


def test_open_routes_of_one_host_name_are_all_open() -> None:
    """Ledger: GW-10. A hostname is an endpoint's, whose adapters are routes of their own."""
    second = replace(OPEN, alias="open/french", endpoint="ep-second")
    directory = Directory(make_snapshot(OPEN, second))
    assert names(directory.visible(directory.stranger(b"open.example.com"))) == ["open", "open/french"]


def test_where_nothing_is_open_a_key_is_wanted_and_what_exists_is_not_told() -> None:
    """Ledger: GW-10."""
    directory = Directory(make_snapshot(make_route()))
    with pytest.raises(RefusedError) as refused:
        directory.stranger(b"anywhere")
    assert refused.value.refusal.code == "invalid_api_key"


def test_route_of_no_tenant_is_every_caller_s() -> None:
    directory = Directory(make_snapshot(EVERYBODYS, make_route(alias="chat")))
    key = directory.key(SECRET.encode())
    assert key is not None
    assert names(directory.visible(key)) == ["chat", "general"]
    assert directory.route(key, "general") is EVERYBODYS
    assert names(directory.visible(directory.stranger(None))) == ["general"]


def test_what_is_every_caller_s_but_wants_a_key_is_not_shown_to_those_without() -> None:
    """Ledger: GW-10."""
    directory = Directory(make_snapshot(OPEN, replace(EVERYBODYS, is_open=False)))
    stranger = directory.stranger(b"open.example.com")
    assert names(directory.visible(stranger)) == ["open"]
    assert status(directory, stranger, "general") == 401


def test_where_there_are_no_keys_an_unknown_model_is_told_as_such() -> None:
    directory = Directory(replace(make_snapshot(EVERYBODYS), keys=()))
    assert status(directory, directory.stranger(None), "embedding") == 404


@pytest.mark.parametrize(
    ("tenant", "team", "expected"),
    [("acme", "a", 200), ("acme", "b", 404), ("acme", None, 200), ("", "a", 200), ("", "b", 404), ("", None, 404)],
)
def test_foreign_team_gets_404_and_no_listing(tenant: str, team: str | None, expected: int) -> None:
    """Ledger: TEN-16, GW-11. A key without a team works for the whole of its tenant, not for what is of no tenant."""
    directory = Directory(make_snapshot(make_route(alias="general", tenant=tenant, team="a")))
    key = make_key(team=team)
    assert status(directory, key, "general") == expected
    assert names(directory.visible(key)) == (["general"] if expected == 200 else [])
