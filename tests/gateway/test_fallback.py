"""Governed external fallback: when requests may leave the installation, under which policy, and how many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.snapshot import Backend, Fallback, Route
from provisioner.gateway.server import Limits
from tests.gateway.certificates import Authority, client_files
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import Received, Replica, make_route, make_snapshot

SECRET = "partner-secret-4711"
MODEL = "partner/chat-1"
LISTED = json.dumps({"object": "list", "data": [{"id": "other"}, {"id": MODEL}]}).encode()


@dataclass(slots=True)
class Partner:
    """A server of somebody else, who lists models and answers requests by a script."""

    server: Replica = field(default_factory=Replica)
    listed: bytes = LISTED
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None
    certificates: list[Any] = field(default_factory=list)
    """What its callers showed of themselves."""

    async def script(self, request: Received, writer: asyncio.StreamWriter) -> None:
        """Answers both."""
        self.certificates.append(writer.get_extra_info("peercert"))
        if self.answer is not None and request.line.startswith("POST"):
            await self.answer(writer)
            return
        body = self.listed if request.line.startswith("GET") else b'{"partner":true}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    @property
    def sent(self) -> list[Received]:
        """The requests of customers that came."""
        return [one for one in self.server.received if one.line.startswith("POST")]

    @property
    def lists(self) -> int:
        """How often its models were asked for."""
        return len(self.server.received) - len(self.sent)

    def backend(self, **changes: Any) -> Backend:
        """It, as a snapshot names it."""
        target = Backend(
            host="localhost",
            address=f"127.0.0.1:{self.server.port}",
            tls=False,
            is_public=True,
            credential="partner-key",
        )
        return replace(target, **changes)


@contextlib.asynccontextmanager
async def running(context: ssl.SSLContext | None = None) -> AsyncIterator[Partner]:
    """One that runs."""
    made = Partner()
    made.server.script = made.script
    await made.server.start(context)
    try:
        yield made
    finally:
        made.server.stop_listening()


@pytest.fixture
async def partner() -> AsyncIterator[Partner]:
    """One that speaks plain HTTP."""
    async with running() as made:
        yield made


@pytest.fixture
async def stage(make_stage: StageMaker, tmp_path: Path) -> AsyncIterator[Stage]:
    """A gateway whose folder of secrets has the partner's."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "partner-key").write_text(f"{SECRET}\n")
    async with make_stage(secrets=folder) as stage:
        stage.plane.doors.budget = 100
        yield stage


def route_of(partner: Partner, *backends: Backend, target: Backend | None = None, **changes: Any) -> Route:
    """The route of endpoint `chat`, with a fallback that may be used."""
    fallback = Fallback(
        policy="partner", is_enabled=True, is_acknowledged=True, target=target or partner.backend(), model=MODEL
    )
    return replace(make_route(*backends), fallback=replace(fallback, **changes))


async def publish(stage: Stage, *routes: Route) -> None:
    """Gives the gateway these routes."""
    await stage.publish(make_snapshot(*routes, version=stage.version() + 1))


async def prepared(stage: Stage, partner: Partner, route: Route | None = None) -> None:
    """Publishes the route, and waits until a request could go outside."""
    await publish(stage, route or route_of(partner))
    await until(lambda: partner.lists >= 1 and bool(stage.plane.doors.reservations))
    outside = stage.gateway._path.rescue._outside
    assert outside
    await until(
        lambda: outside.targets.lists(outside_target(route, partner), MODEL) and outside.budgets.left("partner") > 0
    )


def outside_target(route: Route | None, partner: Partner) -> Backend:
    """Where the route's requests go."""
    return route.fallback.target if route and route.fallback else partner.backend()


async def told(stage: Stage, count: int) -> dict[str, Any]:
    """The last record, once so many came."""
    await until(lambda: len(stage.plane.records()) >= count)
    return {"target": "", "denial": "", **stage.plane.records()[-1]}  # what is empty is not sent


async def test_a_request_goes_outside_as_the_mapped_model_with_our_credential(
    stage: Stage, partner: Partner, caplog: pytest.LogCaptureFixture
) -> None:
    """FAL-04, FAL-06, FAL-10."""
    caplog.set_level(logging.DEBUG)
    await prepared(stage, partner)
    answer = await stage.chat({"model": "chat", "messages": [{"role": "user", "content": "a-prompt"}]})
    assert (answer.status, answer.body) == (200, b'{"partner":true}')
    (sent,) = partner.sent
    assert json.loads(sent.body) == {"model": MODEL, "messages": [{"role": "user", "content": "a-prompt"}]}
    assert [value for name, value in sent.headers if name.lower() == "authorization"] == [f"Bearer {SECRET}"]
    assert "tnt-acme-secret" not in str(sent.headers)
    record = await told(stage, 1)
    assert (record["target"], record["denial"], record["status"]) == ("partner", "", 200)
    stored = stage.snapshot_file.read_text()
    for text in (json.dumps(record), stored, caplog.text):
        assert SECRET not in text
        assert "a-prompt" not in text
    assert "partner-key" in stored


async def test_nothing_goes_outside_while_a_replica_is_healthy(stage: Stage, partner: Partner) -> None:
    """FAL-03: and FAL-04: when the last one is gone it does, when it is back it does no more."""
    inside = route_of(partner, stage.backend)
    await prepared(stage, partner, inside)
    assert [(await stage.chat()).body for _ in range(10)] == [b"{}"] * 10
    assert partner.sent == []
    await publish(stage, route_of(partner))
    assert (await stage.chat()).body == b'{"partner":true}'
    await publish(stage, inside)
    assert [(await stage.chat()).body for _ in range(10)] == [b"{}"] * 10
    assert len(partner.sent) == 1


async def test_a_last_replica_that_is_out_counts_as_none(stage: Stage, partner: Partner) -> None:
    """FAL-04: the gateway's own probes decide, too."""
    broken = replace(stage.backend, address="127.0.0.1:1")
    await prepared(stage, partner, route_of(partner, broken))
    answers = [await stage.chat() for _ in range(4)]
    assert [answer.status for answer in answers] == [502, 502, 502, 200]
    assert len(partner.sent) == 1


@pytest.mark.parametrize(
    ("changes", "denial"),
    [
        ({"is_enabled": False}, "policy_disabled"),
        ({"is_acknowledged": False}, "privacy_unacknowledged"),
        ({"model": "partner/chat-2"}, "model_unlisted"),
        ({"target": None}, "credential_missing"),
    ],
)
async def test_a_request_that_may_not_go_outside_is_refused_and_the_reason_told(
    stage: Stage, partner: Partner, changes: dict[str, Any], denial: str
) -> None:
    """FAL-05, FAL-07, FAL-10."""
    await prepared(stage, partner)
    if "target" in changes:
        changes = {"target": partner.backend(credential="nobody-has-it")}
    await publish(stage, route_of(partner, **changes))
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"]) == (503, "no_replica")
    assert partner.sent == []
    record = await told(stage, 1)
    assert (record["denial"], record["target"], record["outcome"]) == (denial, "", "shed")
    assert stage.gateway._path.counters.fallbacks[denial] == 1


@pytest.mark.parametrize("listed", [b"[]", b'{"data": [{"id": "other"}]}', b"<html>", b'{"data": [7, {"id": 7}]}'])
async def test_a_target_that_does_not_list_the_model_gets_nothing(
    stage: Stage, partner: Partner, listed: bytes
) -> None:
    """FAL-07."""
    partner.listed = listed
    await publish(stage, route_of(partner))
    await until(lambda: partner.lists >= 1)
    assert (await stage.chat()).status == 503
    assert partner.sent == []


async def test_no_more_is_sent_than_was_reserved_and_the_refusal_comes_before_a_byte_leaves(
    stage: Stage, partner: Partner
) -> None:
    """FAL-09: a used-up budget is 429."""
    stage.plane.doors.budget = 5
    await prepared(stage, partner)
    answers = [await stage.chat() for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[-1].error()["code"] == "fallback_exhausted"
    assert int(answers[-1].headers["Retry-After"]) > 0
    assert len(partner.sent) == 5
    assert (await told(stage, 7))["denial"] == "budget_exhausted"


async def test_what_is_reserved_is_sent_with_the_control_plane_away(stage: Stage, partner: Partner) -> None:
    """FAL-09: the database is not in the path; when the reservation is empty, nothing more is sent."""
    stage.plane.doors.batch = 4
    await prepared(stage, partner)
    stage.plane.doors.status = 500
    answers = [(await stage.chat()).status for _ in range(6)]
    assert answers == [200] * 4 + [429] * 2
    assert len(partner.sent) == 4


async def test_a_lease_ends_with_its_period(stage: Stage, partner: Partner) -> None:
    """FAL-09: what was reserved for an hour is not sent in the next one."""
    await prepared(stage, partner)
    stage.plane.doors.status = 500
    stage.clock.step(3600)
    assert (await stage.chat()).status == 429
    assert partner.sent == []


async def test_more_is_reserved_before_the_last_is_spent(stage: Stage, partner: Partner) -> None:
    """FAL-08: in batches, ahead of need, until the budget is used up."""
    stage.plane.doors.batch, stage.plane.doors.budget = 10, 30
    await prepared(stage, partner)
    statuses = []
    for _ in range(30):
        statuses.append((await stage.chat()).status)
        await asyncio.sleep(0.01)
    assert statuses == [200] * 30
    assert sorted(stage.plane.doors.reservations.values())[-3:] == [10, 10, 10]
    assert (await stage.chat()).status == 429


async def test_what_was_not_sent_is_given_back_when_the_gateway_ends(make_stage: StageMaker, partner: Partner) -> None:
    async with make_stage() as stage:
        doors = stage.plane.doors
        doors.budget = 20
        bare = route_of(partner, target=partner.backend(credential=None))
        await prepared(stage, partner, bare)
        assert [(await stage.chat()).status for _ in range(3)] == [200] * 3
        (reservation,) = doors.reservations
    assert doors.returned == {reservation: 17}


async def test_an_unanswered_reservation_is_asked_for_again_under_its_id(stage: Stage, partner: Partner) -> None:
    """FAL-08: asking twice reserves once."""
    await prepared(stage, partner)
    budgets = stage.gateway._path.rescue._outside
    assert budgets
    purse = budgets.budgets._purses["partner"]
    purse.reservations.clear()
    stage.plane.doors.status = 500
    budgets.budgets._spent.set()
    await until(lambda: purse.asked != "")
    asked = purse.asked
    stage.plane.doors.status, purse.rests_until = 200, 0.0
    stage.plane.doors.budget = 50
    budgets.budgets._spent.set()
    await until(lambda: bool(purse.reservations))
    assert purse.reservations[0].id == asked


async def _close_at_once(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _say_500(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("answer", [_close_at_once, _say_500])
async def test_a_request_that_may_have_been_sent_is_not_sent_again(
    stage: Stage, partner: Partner, answer: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """FAL-11: the target sees it once, the caller gets an error."""
    partner.answer = answer
    await prepared(stage, partner)
    assert (await stage.chat()).status in (500, 502)
    await asyncio.sleep(0.05)
    assert len(partner.sent) == 1


@pytest.mark.parametrize(("name", "status"), [("localhost", 200), ("other.example.com", 503)])
async def test_a_target_is_held_to_a_public_certificate_and_sees_none_of_ours(
    make_stage: StageMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, status: int
) -> None:
    """FAL-06: its certificate is checked against the system's authorities, and it never sees our client certificate."""
    public, ours = Authority(tmp_path, "public"), Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(public.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*public.issue(name))
    context.load_verify_locations(ours.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with running(context) as partner, make_stage(tls=client_files(public, ours)) as stage:
        stage.plane.doors.budget = 10
        route = route_of(partner, target=partner.backend(tls=True, credential=None))
        if status == 200:
            await prepared(stage, partner, route)
        else:
            await publish(stage, route)
            outside = stage.gateway._path.rescue._outside
            await until(lambda: outside is not None and all(outside.targets._due.values()))
        assert (await stage.chat()).status == status
        assert not any(partner.certificates)


async def test_an_endpoint_that_sleeps_is_woken_before_anything_leaves(
    make_stage: StageMaker, partner: Partner
) -> None:
    """FAL-04: its requests wait, and go outside only when it is not woken."""
    async with make_stage(limits=Limits(hold_seconds=60.0, drain_seconds=0.2)) as stage:
        doors = stage.plane.doors
        doors.budget = 10
        asleep = replace(route_of(partner, target=partner.backend(credential=None)), can_wake=True)
        await prepared(stage, partner, asleep)
        doors.status = 503
        assert (await stage.chat()).status == 200
        assert len(partner.sent) == 1
        doors.status = 200
        asked = asyncio.create_task(stage.chat())
        await until(lambda: stage.gateway._path.rescue.held == 1)
        await publish(stage, replace(asleep, backends=(stage.backend,)))
        assert ((await asked).body, len(partner.sent)) == (b"{}", 1)
        assert doors.woken == ["ep-acme-chat"] * 2
