"""Where a gateway's knowledge comes from, and that it outlives the control plane."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from dataclasses import replace

import pytest

from provisioner.domain.snapshot import Backend
from provisioner.gateway.server import start_gateway
from tests.bound import within
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import CREDENTIAL, SECRET, make_key, make_route, make_snapshot


async def test_new_key_works_within_a_second_and_a_revoked_one_stops(stage: Stage) -> None:
    """Ledger: GW-01."""
    assert (await stage.chat(secret="tnt-new")).status == 401
    await stage.plane.publish(make_snapshot(make_route(stage.backend), keys=(make_key("tnt-new"),), version=3))
    async with within(1):
        while (await stage.chat(secret="tnt-new")).status != 200:
            await asyncio.sleep(0.02)
    assert (await stage.chat()).status == 401


async def test_new_route_works_within_a_second_and_one_that_is_gone_stops(stage: Stage) -> None:
    """Ledger: GW-04, ROU-08."""
    assert (await stage.chat({"model": "new"})).status == 404
    await stage.plane.publish(make_snapshot(make_route(stage.backend, alias="new"), keys=(make_key(),), version=3))
    async with within(1):
        while (await stage.chat({"model": "new"})).status != 200:
            await asyncio.sleep(0.02)
    assert (await stage.chat()).status == 404


async def test_snapshot_file_holds_digests_only_and_is_its_owner_s(stage: Stage) -> None:
    """Ledger: GW-01."""
    await until(stage.snapshot_file.exists)
    assert stat.S_IMODE(stage.snapshot_file.stat().st_mode) == 0o600
    text = stage.snapshot_file.read_text()
    assert make_key().digest in text
    assert SECRET not in text
    assert CREDENTIAL not in text + repr(stage.config)


async def test_what_a_killed_gateway_left_of_a_snapshot_is_removed(stage: Stage) -> None:
    await until(stage.snapshot_file.exists)
    left = stage.snapshot_file.with_name("snapshot.json.1.new")
    left.write_bytes(b"half of a")
    os.utime(left, (1, 1))
    await stage.publish(make_snapshot(version=3))
    await until(lambda: not left.exists())
    assert stage.snapshot_file.exists()


async def test_snapshot_that_the_disk_did_not_take_leaves_nothing_and_is_stored_when_it_does(stage: Stage) -> None:
    """Ledger: GW-01. What is stored is never an older one that has the time of a newer one."""
    await until(stage.snapshot_file.exists)
    stage.snapshot_file.unlink()
    stage.snapshot_file.mkdir()
    await stage.publish(make_snapshot(version=3))
    await until(lambda: stage.gateway._path.counters.snapshot_failures.total() == 1)
    assert list(stage.snapshot_file.parent.glob("snapshot.json.*")) == []
    stage.snapshot_file.rmdir()
    await until(lambda: stage.snapshot_file.is_file() and b'"version":3' in stage.snapshot_file.read_bytes())


@pytest.mark.parametrize("failure", ["broken", "garbage", "not-a-snapshot"])
async def test_last_good_snapshot_serves_on_while_the_control_plane_fails(stage: Stage, failure: str) -> None:
    """Ledger: ROU-07, GW-01."""
    if failure == "broken":
        stage.plane.broken = True
    else:
        stage.plane.garbage = b"{" if failure == "garbage" else b'{"version": "x"}'
    await stage.plane.publish(make_snapshot(version=3))
    await until(lambda: stage.gateway._path.counters.snapshot_failures.total() >= 2)
    assert [(await stage.chat()).status for _ in range(20)] == [200] * 20
    stage.plane.broken, stage.plane.garbage = False, None
    await until(lambda: stage.version() == 3)


async def test_gateway_restarts_and_serves_without_the_control_plane(stage: Stage) -> None:
    """Ledger: LIF-12, GW-01."""
    await until(lambda: stage.snapshot_file.exists() and b'"version":2' in stage.snapshot_file.read_bytes())
    await stage.gateway.close()
    config = stage.control(url="http://127.0.0.1:1")
    stage.gateway = await start_gateway(config, clock=stage.clock)
    assert stage.gateway.is_ready
    assert [(await stage.chat()).status for _ in range(20)] == [200] * 20


async def test_control_plane_that_dies_during_traffic_is_not_noticed_by_callers(make_stage: StageMaker) -> None:
    """Ledger: LIF-12."""
    async with make_stage() as stage:
        answers: list[int] = []

        async def call() -> None:
            answers.extend([(await stage.chat()).status for _ in range(100)])

        callers = [asyncio.create_task(call()) for _ in range(4)]
        await asyncio.sleep(0.05)
        stage.plane.broken = True
        await stage.plane.publish(make_snapshot(version=3))
        await asyncio.gather(*callers)
        assert answers == [200] * 400


async def test_gateway_without_a_snapshot_is_503_until_the_first_one(stage: Stage) -> None:
    await stage.gateway.close()
    stage.snapshot_file.write_text("{}")
    stage.plane.broken = True
    stage.gateway = await start_gateway(stage.config, clock=stage.clock)
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"]) == (503, "not_ready")
    stage.plane.broken = False
    await until(lambda: stage.gateway.is_ready)
    assert (await stage.chat()).status == 200


async def test_wrong_credential_gets_no_snapshot(stage: Stage) -> None:
    await stage.gateway.close()
    nothing_stored = stage.snapshot_file.with_name("none.json")
    stranger = stage.control(credential="wrong", snapshot_file=nothing_stored)
    stage.gateway = await start_gateway(stranger, clock=stage.clock)
    await until(lambda: stage.gateway._path.counters.snapshot_failures.total() >= 1)
    assert not stage.gateway.is_ready


async def test_snapshot_past_its_greatest_age_is_not_served_from(make_stage: StageMaker) -> None:
    async with make_stage(max_age=60) as stage:
        stage.plane.broken = True
        await stage.plane.publish(replace(stage.plane.snapshot, version=3))
        stage.clock.step(59)
        await asyncio.sleep(0.3)
        assert (await stage.chat()).status == 200
        stage.clock.step(2)
        await until(lambda: not stage.gateway.is_ready)
        assert (await stage.chat()).status == 503
        stage.plane.broken = False
        await until(lambda: stage.gateway.is_ready)
        assert (await stage.chat()).status == 200


async def test_every_request_sees_one_snapshot_while_snapshots_change(stage: Stage) -> None:
    """Ledger: ROU-06, GW-04.

    The tenant's two aliases exist in every snapshot, under upstream names that carry its version; a list of models or
    a rewrite that mixed two versions would show.
    """
    running = True

    async def swap() -> None:
        version = 3
        while running:
            routes = [
                replace(make_route(stage.backend, alias=alias), upstream_model=f"v{version}")
                for alias in (f"a{version}", f"b{version}", "chat")
            ]
            await stage.publish(make_snapshot(*routes, version=version))
            version += 1

    async def read() -> None:
        headers = {"X-API-Key": SECRET}
        for _ in range(100):
            listed = json.loads((await stage.send("GET", "/v1/models", headers=headers)).body)["data"]
            names = {model["id"][1:] for model in listed if model["id"] != "chat"}
            assert len(names) <= 1
            assert (await stage.chat()).status == 200

    swapping = asyncio.create_task(swap())
    await asyncio.gather(*(read() for _ in range(4)))
    running = False
    await swapping
    assert stage.version() > 5
    assert all(b'"model": "v' in r.body or b"served/" in r.body for r in stage.replica.received)


async def test_ten_thousand_requests_ask_the_control_plane_nothing(stage: Stage) -> None:
    """Ledger: GW-04."""
    await stage.publish(make_snapshot(make_route(), version=3))
    before = stage.plane.asked
    request = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\nContent-Length: 16\r\n\r\n%b" % (
        SECRET.encode(),
        b'{"model":"chat"}',
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    for _ in range(100):
        writer.write(request * 100)
        for _ in range(100):
            assert b" 503 " in await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(b"}}")
    writer.close()
    assert stage.plane.asked - before < 100  # the long poll alone, once a second


async def test_operator_s_listener_tells_state_and_no_secret(stage: Stage) -> None:
    admin = f"http://127.0.0.1:{stage.gateway.admin_port}"

    async def get(path: str) -> tuple[int, str]:
        async with stage.http.get(admin + path) as answer:
            return answer.status, await answer.text()

    await stage.chat()
    assert await get("/healthz") == (200, "ok\n")
    assert await get("/readyz") == (200, "ready\n")
    status = json.loads((await get("/config"))[1])
    assert status["snapshot"]["version"] == 2
    assert status["routes"][0]["backends"] == [stage.backend.host]
    assert status["limits"]["upstream_header_seconds"] == 1200
    metrics = (await get("/metrics"))[1]
    assert 'tenantry_gateway_answers_total{status="200"} 1' in metrics
    assert "tenantry_gateway_snapshot_version 2" in metrics
    for text in (json.dumps(status), metrics):
        assert make_key().digest not in text
        assert CREDENTIAL not in text


async def test_operator_s_paths_are_not_on_the_customers_address(stage: Stage) -> None:
    for path in ("/healthz", "/readyz", "/status", "/metrics"):
        assert (await stage.send("GET", path, headers={"X-API-Key": SECRET})).status == 404


async def test_unused_backends_of_an_old_snapshot_do_no_harm(stage: Stage) -> None:
    await stage.chat()
    moved = Backend(host=stage.backend.host, address="127.0.0.1:1", tls=False)
    await stage.publish(make_snapshot(make_route(moved), version=3))
    assert (await stage.chat()).status == 502
