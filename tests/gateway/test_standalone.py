"""A gateway without a control plane, told what it serves by the environment alone."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.gateway.server import start_gateway
from provisioner.settings.gateway import read_gateway_config
from tests.gateway.alone import Alone, alone, key_line
from tests.gateway.certificates import Authority
from tests.gateway.conftest import until
from tests.gateway.held import Held
from tests.gateway.stub import Received, Replica

LANES = ("general", "coder", "vision", "embedding", "voxtral")


async def test_one_front_door_routes_each_lane_to_its_own_engine() -> None:
    """Ledger: GW-14."""
    async with alone(*LANES, **{f"BACKEND_{lane.upper()}": f"<{lane}>/v1" for lane in LANES}) as stage:
        for lane in LANES:
            assert (await stage.chat(lane)).status == 200
        assert {lane: stage.asked(lane) for lane in LANES} == {lane: [lane] for lane in LANES}
        assert await stage.models() == list(LANES)


async def test_coder_and_vision_fall_back_to_general_and_the_others_are_unknown() -> None:
    """Ledger: FAL-01, FAL-02."""
    async with alone(UPSTREAM_MODEL_GENERAL="llama-3", MODELS_CODER="starcoder") as stage:
        for model in ("general", "coder", "vision", "starcoder"):
            assert (await stage.chat(model)).status == 200
        assert stage.asked("general") == ["llama-3"] * 4
        for model in ("embedding", "voxtral"):
            answer = await stage.chat(model)
            assert (answer.status, answer.error()["code"]) == (404, "model_not_found")
        assert await stage.models() == ["general", "coder", "starcoder", "vision"]


async def test_a_list_of_urls_is_replicas_of_one_backend_in_turn() -> None:
    """Ledger: GW-12."""
    async with alone("a", "b", BACKEND_GENERAL="<a>,<b>/v1", CONCURRENCY_GENERAL="0") as stage:
        for _ in range(10):
            assert (await stage.chat("general")).status == 200
        assert {name: len(stage.asked(name)) for name in stage.engines} == {"a": 5, "b": 5}


async def test_lanes_on_one_url_or_in_one_group_share_their_slots() -> None:
    """Ledger: ADM-01, ADM-05, GW-18."""
    environ = {"BACKEND_CODER": "<general>", "BACKEND_EMBEDDING": "<other>", "QUEUE_GROUP_EMBEDDING": "general"}
    async with alone("general", "other", **environ) as stage:
        held = Held()
        for engine in stage.engines.values():
            engine.script = held
        asked = [asyncio.create_task(stage.chat(model)) for model in ("general", "coder", "embedding")]
        await until(lambda: (len(held.names), _queued(stage)) == (1, 2))
        status = json.loads((await stage.send("GET", "/status")).body)
        assert status == {
            "scope": "process",
            "backends": [
                {"backend": "general", "slots": 1, "active": 1, "queued": {"interactive": 0, "background": 2}},
            ],
        }
        held.release("general", "coder", "embedding")
        assert [(await one).status for one in asked] == [200] * 3


async def test_status_tells_who_waits_by_backend_and_class() -> None:
    """Ledger: GW-18, ADM-07. Interactive are those with an assertion that the one key has signed."""
    key = "an identity key of thirty-two bytes"
    async with alone("general", "coder", CORE_ROUTER_IDENTITY_KEY=key, BACKEND_CODER="<coder>") as stage:
        held = stage.engines["general"].script = Held()
        asked = [asyncio.create_task(stage.chat("general"))]
        await until(lambda: len(held.names) == 1)
        for person in ("ann@example.com", "bob@example.com"):
            headers = {"X-Inference-Priority": "interactive", "X-Inference-Identity": signed(person, key)}
            asked.append(asyncio.create_task(stage.chat("vision", headers=headers)))
        asked += [asyncio.create_task(stage.chat("general")) for _ in range(3)]
        await until(lambda: _queued(stage) == 5)
        assert json.loads((await stage.send("GET", "/status")).body) == {
            "scope": "process",
            "backends": [
                {"backend": "general", "slots": 1, "active": 1, "queued": {"interactive": 2, "background": 3}},
                {"backend": "coder", "slots": 1, "active": 0, "queued": {"interactive": 0, "background": 0}},
            ],
        }
        held.release("general", "vision")
        assert [(await one).status for one in asked] == [200] * 6


def signed(email: str, key: str) -> str:
    """An assertion of who asks: a JWT with HS256, put together by hand."""
    claims = {"aud": "model-router", "email": email, "exp": 4_000_000_000}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "HS256"}, claims)]
    mac = hmac.new(key.encode(), b".".join(parts), hashlib.sha256).digest()
    return b".".join((*parts, base64.urlsafe_b64encode(mac).rstrip(b"="))).decode()


def _queued(stage: Alone) -> int:
    rows = stage.gateway._path.queue.status()["backends"]
    return sum(sum(row["queued"].values()) for row in rows)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {"BACKEND_CODER": "http://a", "BACKEND_GENERAL": "http://a:80/v1", "CONCURRENCY_GENERAL": "1"}
            | {"CONCURRENCY_CODER": "2"},
            "CONCURRENCY_GENERAL=1 and CONCURRENCY_CODER=2",
        ),
        ({"BACKEND_GENERAL": "http://a", "MODELS_GENERAL": "coder"}, "MODELS_GENERAL"),
        ({"BACKEND_GENERAL": "http://a", "TENANTRY_KEYS_FILE": "/nowhere/keys"}, "TENANTRY_KEYS_FILE"),
    ],
)
async def test_what_cannot_be_served_stops_the_start(environ: Mapping[str, str], told: str) -> None:
    """Ledger: GW-15, ADM-05."""
    with pytest.raises(RejectedError, match=told):
        await start_gateway(read_gateway_config({"LISTEN_ADDR": "127.0.0.1:0", **environ}), clock=SystemClock())


async def test_without_a_keys_file_no_key_is_needed_and_any_is_taken() -> None:
    """Ledger: GW-10. Clients that must send a key send anything."""
    async with alone(CONCURRENCY_GENERAL="0") as stage:
        assert [(await stage.chat("general", key=key)).status for key in (None, "EMPTY", "tnt-x")] == [200] * 3
        assert all(request.header("authorization") is None for request in stage.engines["general"].received)


async def test_with_a_keys_file_a_missing_or_bad_key_is_401_and_teams_see_their_own_lanes(tmp_path: Path) -> None:
    """Ledger: GW-10, GW-11, TEN-16."""
    keys = tmp_path / "keys.jsonl"
    keys.write_text(key_line("of-a", team="a") + key_line("of-b", team="b") + key_line("of-none", "other"))
    scoped = {"TENANTRY_KEYS_FILE": str(keys), "TEAMS_CODER": "a", "BACKEND_CODER": "<coder>"}
    async with alone("general", "coder", TENANTRY_TEAM_SCOPING="on", **scoped) as stage:
        refused = [await stage.chat("general", key=key) for key in (None, "wrong")]
        assert [answer.status for answer in refused] == [401, 401]
        assert refused[0].body == refused[1].body
        assert (await stage.send("GET", "/v1/models")).status == 401
        assert (await stage.chat("coder", key="of-a")).status == 200
        for foreign in ("of-b", "of-none"):
            answer = await stage.chat("coder", key=foreign)
            assert (answer.status, answer.error()["code"]) == (404, "model_not_found")
            assert await stage.models(foreign) == ["general", "vision"]
            assert (await stage.chat("general", key=foreign)).status == 200
    async with alone("general", "coder", TENANTRY_TEAM_SCOPING="off", **scoped) as stage:
        assert [(await stage.chat("coder", key=key)).status for key in ("of-a", "of-b", "of-none")] == [200] * 3


async def test_log_tells_at_the_start_what_is_served_and_to_whom(caplog: pytest.LogCaptureFixture) -> None:
    """An allowance that callers without a key have together is no key."""
    with caplog.at_level(logging.INFO, logger="provisioner.gateway.standalone"):
        async with alone(RATE_LIMIT_RPM="5", MODELS_GENERAL="tiny"):
            pass
    assert "serving models: general, tiny, coder, vision; keys: none" in caplog.text


async def test_keys_file_is_read_again_when_it_changes_and_kept_while_it_is_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger: GW-01."""
    keys = tmp_path / "keys.jsonl"
    keys.write_text(key_line("first"))
    async with alone(TENANTRY_KEYS_FILE=str(keys), CONCURRENCY_GENERAL="0") as stage:
        assert (await stage.chat("general", key="first")).status == 200
        keys.write_text(key_line("second"))
        await until(lambda: stage.gateway._path.counters.snapshots == 2)
        assert [(await stage.chat("general", key=key)).status for key in ("first", "second")] == [401, 200]

        with caplog.at_level(logging.WARNING, logger="provisioner"):
            keys.write_text("tnt-secret-in-the-wrong-place")
            await until(lambda: stage.gateway._path.counters.snapshot_failures["KeysUnusable"] == 1)
            aside = keys.rename(tmp_path / "aside")
            await until(lambda: stage.gateway._path.counters.snapshot_failures["KeysUnusable"] == 2)
            aside.rename(keys)  # it looks as it did, and is read all the same
            await until(lambda: stage.gateway._path.counters.snapshot_failures["KeysUnusable"] == 3)
        assert (await stage.chat("general", key="second")).status == 200
        assert "line 1" in caplog.text
        assert "tnt-secret" not in caplog.text
        metrics = (await stage.send("GET", "/metrics")).body.decode()
        assert 'tenantry_gateway_snapshot_failures_total{reason="KeysUnusable"} 3' in metrics

        keys.write_text(key_line("third"))
        await until(lambda: stage.gateway._path.counters.snapshots == 3)
        assert (await stage.chat("general", key="third")).status == 200


async def test_pages_stand_on_the_only_address_without_a_key_and_the_configuration_does_not(tmp_path: Path) -> None:
    """Ledger: GW-18."""
    keys = tmp_path / "keys.jsonl"
    keys.write_text(key_line("first"))
    async with alone(TENANTRY_KEYS_FILE=str(keys)) as stage:
        answers = {path: await stage.send("GET", path) for path in ("/healthz", "/readyz", "/status", "/metrics")}
        assert (await stage.send("GET", "/metrics?name[]=up")).status == 200
        assert {answer.status for answer in answers.values()} == {200}
        assert answers["/status"].headers["Content-Type"] == "application/json"
        assert answers["/metrics"].headers["Content-Type"].startswith("text/plain")
        assert (await stage.send("HEAD", "/healthz")).body == b""
        assert (await stage.send("POST", "/status")).status == 405
        assert (await stage.send("GET", "/config")).status == 401
        assert (await stage.send("GET", "/config", headers={"X-API-Key": "first"})).status == 404


async def test_with_an_operator_s_address_the_pages_stand_there_alone(tmp_path: Path) -> None:
    """Ledger: GW-16, GW-18."""
    (tmp_path / "engine.key").write_text("hunter2")
    secret = {"UPSTREAM_API_KEY_GENERAL_FILE": str(tmp_path / "engine.key"), "CORE_ROUTER_IDENTITY_KEY": "swordfish"}
    async with alone(ADMIN_ADDR="127.0.0.1:0", UPSTREAM_MODEL_GENERAL="llama-3", **secret) as stage:
        paths = ("/healthz", "/readyz", "/status", "/metrics", "/config")
        assert {(await stage.send("GET", path)).status for path in paths} == {404}
        admin = stage.gateway.admin_port
        answers = {path: await stage.send("GET", path, port=admin) for path in paths}
        assert {answer.status for answer in answers.values()} == {200}
        config = json.loads(answers["/config"].body)
        assert config["limits"]["upstream_header_seconds"] == 20 * 60
        assert config["queueing"]["identity_key"] is True
        assert config["routes"][0]["upstream_model"] == "llama-3"
        for answer in answers.values():
            assert b"hunter2" not in answer.body
            assert b"swordfish" not in answer.body


async def test_page_on_a_connection_that_is_kept_is_told_anew_each_time() -> None:
    """A request line that repeats is not parsed again; a page is no such request."""
    async with alone() as stage:
        request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
        for _ in range(3):
            writer.write(request)
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(3) == b"ok\n"
        writer.close()


async def test_rate_is_that_of_each_key_or_of_everybody_where_there_are_none(tmp_path: Path) -> None:
    limits = {"RATE_LIMIT_RPM": "2", "CONCURRENCY_GENERAL": "0"}
    async with alone(**limits) as stage:
        assert [(await stage.chat("general", key=key)).status for key in (None, "a", "b")] == [200, 200, 429]
    keys = tmp_path / "keys.jsonl"
    keys.write_text(key_line("one") + key_line("two"))
    async with alone(TENANTRY_KEYS_FILE=str(keys), **limits) as stage:
        asked = [await stage.chat("general", key=key) for key in ("one", "one", "one", "two")]
        assert [answer.status for answer in asked] == [200, 200, 429, 200]
        assert asked[2].error()["code"] == "rate_limit_exceeded"
        assert int(asked[2].headers["Retry-After"]) <= 60


async def test_request_for_more_tokens_than_are_allowed_is_refused() -> None:
    async with alone(MAX_TOKENS_LIMIT="100", CONCURRENCY_GENERAL="0") as stage:
        asked = [
            await stage.send("POST", "/v1/chat/completions", json={"model": "general", "max_tokens": tokens})
            for tokens in (100, 101)
        ]
        assert [answer.status for answer in asked] == [200, 400]


async def test_engine_that_never_answers_is_given_up_after_the_time_that_is_set() -> None:
    """Ledger: GW-16."""
    async with alone(UPSTREAM_HEADER_TIMEOUT="300ms") as stage:
        stage.engines["general"].script = Held()
        answer = await stage.chat("general")
        assert (answer.status, answer.error()["code"]) == (504, "upstream_timeout")


@pytest.fixture
async def tls_engine(tmp_path: Path) -> AsyncIterator[tuple[Replica, Authority]]:
    """An engine that speaks TLS as `localhost`, and who vouches for it."""
    authority, engine = Authority(tmp_path, "ca"), Replica()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost"))
    await engine.start(context)
    yield engine, authority
    engine.stop_listening()


async def test_engine_behind_tls_is_checked_and_gets_its_own_key_and_never_the_caller_s(
    tls_engine: tuple[Replica, Authority], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: FAL-06. The key is read again when its file changes."""
    engine, authority = tls_engine
    key = tmp_path / "engine.key"
    key.write_text("engine-key-1\n")
    backend = {"BACKEND_GENERAL": f"https://localhost:{engine.port}/v1", "CONCURRENCY_GENERAL": "0"}
    environ = {**backend, "UPSTREAM_API_KEY_GENERAL_FILE": str(key)}
    async with alone(**environ) as stage:
        assert (await stage.chat("general")).status == 502  # nobody vouches for it
        assert engine.received == []
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    async with alone(**environ) as stage:
        assert (await stage.chat("general", key="of-the-caller")).status == 200
        assert engine.received[0].header("host") == f"localhost:{engine.port}"
        assert engine.received[0].header("authorization") == "Bearer engine-key-1"
        key.write_text("engine-key-2")
        async with asyncio.timeout(30):
            while engine.received[-1].header("authorization") != "Bearer engine-key-2":
                await asyncio.sleep(0.1)
                assert (await stage.chat("general")).status == 200


async def test_lines_of_usage_tell_the_lane_and_the_replica(tmp_path: Path) -> None:
    """Ledger: MET-06."""
    file, keys = tmp_path / "usage.jsonl", tmp_path / "keys.jsonl"
    keys.write_text(key_line("first", name="ci"))
    async with alone(TENANTRY_USAGE_FILE=str(file), TENANTRY_KEYS_FILE=str(keys)) as stage:
        assert (await stage.chat("coder", key="first")).status == 200
        replica = f"127.0.0.1:{stage.engines['general'].port}"
    lines: Sequence[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    told = [(one["tenant"], one["key"], one["alias"], one["upstream_model"], one["replica"]) for one in lines]
    assert told == [("acme", "ci", "coder", "general", replica)]


@pytest.mark.parametrize("told", [{}, {"UPSTREAM_MODEL_GENERAL": "llama3"}])
async def test_engine_that_lists_other_names_than_it_answers_to_is_no_failing_one(told: dict[str, str]) -> None:
    """llama.cpp answers to every name and lists its file; Ollama answers to `llama3` and lists `llama3:latest`."""
    async with alone(CONCURRENCY_GENERAL="0", PROBE_INTERVAL="20ms", **told) as stage:
        stage.engines["general"].script = _lists_another_name
        looks = stage.engines["general"].received
        await until(lambda: sum(" /v1/models " in look.line for look in looks) >= 3)
        assert [(await stage.chat(model)).status for model in ("general", "coder", "vision")] == [200] * 3
        assert not stage.gateway._path.counters.replica_ejections


async def _lists_another_name(request: Received, writer: asyncio.StreamWriter) -> None:
    body = b'{"object": "list", "data": [{"id": "llama3:latest", "object": "model"}]}'
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
