"""Teams: made once per idempotency key, renamed from a known state, and removed when nothing names them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from provisioner.domain.audit import AuditFilter
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError
from provisioner.domain.ids import KeyId
from provisioner.domain.origin import Origin
from provisioner.domain.team import Team
from provisioner.store.sql import SqlStore
from tests.store.examples import NOON, api_key, endpoint, operation, tenant, tenant_operation

RESEARCH = Team(tenant="acme", name="research", display_name="Research", created_at=NOON)


@pytest.fixture(autouse=True)
async def acme(store: SqlStore) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())


def origin(key: str, *, digest: str = "digest") -> Origin:
    return Origin(
        idempotency_key=key, request_digest=digest, actor="admin:bootstrap", request_id=f"req-{key}", caller="key-maker"
    )


def of_research(**changes: Any) -> Any:
    """Endpoint `ep-a`, as team research asks for it."""
    made = endpoint(**changes)
    return replace(made, request=replace(made.request, team="research"))


async def test_a_repeated_request_finds_the_team_it_made(store: SqlStore) -> None:
    """Ledger: OPS-01."""
    later = replace(RESEARCH, created_at=NOON + timedelta(hours=1))
    assert await store.teams.make(RESEARCH, origin("a")) == await store.teams.make(later, origin("a")) == RESEARCH
    for team, key, digest, reason in (
        (replace(RESEARCH, name="sales"), "a", "another", "IdempotencyKeyReused"),
        (RESEARCH, "b", "digest", "NameTaken"),
        (replace(RESEARCH, tenant="nobody"), "c", "digest", "TenantUnknown"),
    ):
        with pytest.raises(RejectedError) as refused:
            await store.teams.make(team, origin(key, digest=digest))
        assert refused.value.reason == reason
    assert (await store.teams.page()).rows == [RESEARCH]


async def test_every_change_leaves_one_audit_event(store: SqlStore) -> None:
    """Ledger: SEC-03."""
    await store.teams.make(RESEARCH, origin("a"))
    labs = replace(RESEARCH, display_name="Labs")
    for _ in range(2):
        assert await store.teams.rename(labs, origin("b"), NOON, states=[RESEARCH.state]) == labs
        await store.teams.remove("acme", "research", origin("c"), NOON)
        if _ == 0:
            await store.teams.make(labs, origin("d"))
    events = await store.audit.oldest(AuditFilter(subject="research"))
    assert [event.action for event in events] == ["team.create", "team.update", "team.delete", "team.create"]
    made, renamed, gone, _ = events
    assert (made.before_digest, made.after_digest) == ("", renamed.before_digest)
    assert (renamed.after_digest, gone.after_digest) == (gone.before_digest, "")


async def test_a_change_made_of_another_state_is_refused(store: SqlStore) -> None:
    await store.teams.make(RESEARCH, origin("a"))
    labs, other = replace(RESEARCH, display_name="Labs"), replace(RESEARCH, display_name="Other")
    answers = await asyncio.gather(
        *(store.teams.rename(team, origin(team.display_name), NOON, states=[RESEARCH.state]) for team in (labs, other)),
        return_exceptions=True,
    )
    (refused,) = [answer for answer in answers if isinstance(answer, ConflictError)]
    assert refused.reason == "PreconditionFailed"
    assert await store.teams.get("acme", "research") in answers
    with pytest.raises(NotFoundError):
        await store.teams.rename(replace(RESEARCH, name="sales"), origin("c"), NOON)


async def test_a_team_stays_while_something_names_it(store: SqlStore) -> None:
    await store.teams.make(RESEARCH, origin("a"))
    await store.operations.submit(operation(), endpoint=of_research())
    await store.keys.make(api_key(team="research"), origin("k"))
    await store.keys.add(api_key("old", id=KeyId("key-old"), team="research", expires_at=NOON))
    with pytest.raises(ConflictError) as refused:
        await store.teams.remove("acme", "research", origin("b"), NOON)
    assert refused.value.reason == "TeamInUse"
    assert refused.value.message.endswith("endpoint `chat` (ep-a), key `ci` (key-a)")
    await store.keys.withdraw(KeyId("key-a"), origin("r"), NOON)
    with pytest.raises(ConflictError, match=r"endpoint `chat` \(ep-a\)$"):
        await store.teams.remove("acme", "research", origin("b"), NOON)


async def test_nothing_names_a_team_that_is_not_there(store: SqlStore) -> None:
    for naming in (
        store.operations.submit(operation(), endpoint=of_research()),
        store.keys.make(api_key(team="research"), origin("k")),
        store.teams.remove("acme", "research", origin("b"), NOON),
        store.teams.get("acme", "research"),
    ):
        with pytest.raises(NotFoundError) as refused:
            await naming
        assert refused.value.reason == "TeamUnknown"
    assert not await store.endpoints.list() and not await store.keys.list()


async def test_an_endpoint_and_the_end_of_its_team_do_not_pass_each_other(store: SqlStore) -> None:
    for number in range(8):
        await store.teams.make(RESEARCH, origin(f"make-{number}"))
        made, gone = await asyncio.gather(
            store.operations.submit(
                operation(id=f"op-{number}", subject=f"ep-{number}"),
                endpoint=of_research(id=f"ep-{number}", name=f"n-{number}"),
            ),
            store.teams.remove("acme", "research", origin(f"remove-{number}"), NOON),
            return_exceptions=True,
        )
        assert isinstance(made, NotFoundError) is not isinstance(gone, ConflictError), (made, gone)
        if not isinstance(made, NotFoundError):
            return  # it is in use from here on


async def test_teams_are_read_page_by_page(store: SqlStore) -> None:
    names = ["a", "b", "c"]
    for name in names[::-1]:
        await store.teams.make(replace(RESEARCH, name=name), origin(name))
    first = await store.teams.page(tenant="acme", limit=2)
    second = await store.teams.page(tenant="acme", after=first.next, limit=2)
    assert [team.name for team in (*first.rows, *second.rows) if isinstance(team, Team)] == names
    assert second.next is None
    assert (await store.teams.page(tenant="zeta")).rows == []
