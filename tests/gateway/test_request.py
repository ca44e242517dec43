"""A request's way through the gateway: who may ask, where it goes, what the replica sees and what comes back."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.conftest import Stage, StageMaker
from tests.gateway.stub import NOW, SECRET, Received, make_key, make_route, make_snapshot


async def test_answer_of_the_replica_is_the_answer_of_the_gateway(stage: Stage) -> None:
    """GW-13."""

    async def made(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 201 Made\r\nX-Engine: e1\r\nContent-Length: 5\r\n\r\nshort")

    stage.replica.script = made
    answer = await stage.chat()
    assert (answer.status, answer.body, answer.headers["X-Engine"]) == (201, b"short", "e1")


async def test_replica_sees_its_own_model_name_and_every_other_byte_as_sent(stage: Stage) -> None:
    """Ledger: GW-05."""
    body = (
        b' {"seed": 9007199254740993 ,"a":1,"a":2,"logit_bias":{"9":1,"1":9},\t"model":\n"chat", "x":"\\u00e9\xc3\xa9"}'
    )
    answer = await stage.send(
        "POST",
        "/v1/completions?beta=1%20",
        data=body,
        headers={"X-API-Key": SECRET, "Content-Type": "application/json"},
    )
    seen = stage.replica.received[0]
    assert answer.status == 200
    assert seen.body == body.replace(b'"chat"', b'"served/chat"')
    assert seen.line == "POST /v1/completions?beta=1%20 HTTP/1.1"
    assert seen.header("host") == stage.backend.host
    assert seen.header("content-type") == "application/json"


async def test_model_part_of_a_form_is_rewritten_after_a_file_with_any_bytes(stage: Stage) -> None:
    file = bytes(range(256)) * 400
    body = (
        b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        + file
        + b'\r\n--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat\r\n--xx--\r\n'
    )
    headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "multipart/form-data; boundary=xx"}
    answer = await stage.send("POST", "/v1/audio/transcriptions", data=body, headers=headers)
    assert answer.status == 200
    assert stage.replica.received[0].body == body.replace(b"\r\n\r\nchat\r\n", b"\r\n\r\nserved/chat\r\n")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer tnt-wrong"},
        {"Authorization": f"Basic {SECRET}"},
        {"Authorization": "Bearer "},
        {"Authorization": SECRET},
        {"X-API-Key": "tnt-wrong"},
        {"X-API-Key": ""},
    ],
    ids=["none", "wrong", "basic", "empty", "no-scheme", "wrong-x-api-key", "empty-x-api-key"],
)
async def test_caller_without_a_good_key_gets_401_on_every_path(stage: Stage, headers: dict[str, str]) -> None:
    """Ledger: SEC-05."""
    for method, path in [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/metrics")]:
        answer = await stage.send(method, path, headers=headers)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.error()["code"] == "invalid_api_key"
    assert stage.replica.received == []


@pytest.mark.parametrize(
    "header", [{"Authorization": f"Bearer {SECRET}"}, {"authorization": f"bearer  {SECRET} "}, {"X-API-Key": SECRET}]
)
async def test_key_is_taken_as_bearer_token_or_x_api_key(stage: Stage, header: dict[str, str]) -> None:
    assert (await stage.send("GET", "/v1/models", headers=header)).status == 200


async def test_key_stops_working_at_the_moment_it_expires(stage: Stage) -> None:
    key = make_key(expires_at=NOW.replace(minute=1))
    await stage.publish(make_snapshot(make_route(stage.backend), keys=(key,), version=3))
    stage.clock.step(59.9)
    assert (await stage.chat()).status == 200
    stage.clock.step(0.1)
    assert (await stage.chat()).status == 401


async def test_alias_that_is_unknown_or_of_others_is_404_and_looks_the_same(stage: Stage) -> None:
    routes = (
        make_route(stage.backend, alias="theirs", tenant="other"),
        make_route(stage.backend, alias="red-only", team="red"),
    )
    keys = (make_key(team="blue"),)
    await stage.publish(make_snapshot(*routes, keys=keys, version=3))
    texts = set()
    for alias in ("theirs", "red-only", "nowhere"):
        answer = await stage.chat({"model": alias})
        assert (answer.status, answer.error()["code"]) == (404, "model_not_found")
        texts.add(answer.error()["message"].replace(alias, "X"))
    assert len(texts) == 1
    assert stage.replica.received == []


async def test_key_of_a_team_uses_its_team_s_routes_and_the_tenant_s(stage: Stage) -> None:
    routes = (make_route(stage.backend, alias="blue-only", team="blue"), make_route(stage.backend, alias="for-all"))
    await stage.publish(make_snapshot(*routes, keys=(make_key(team="blue"),), version=3))
    assert [(await stage.chat({"model": alias})).status for alias in ("blue-only", "for-all")] == [200, 200]


async def test_key_that_is_bound_to_other_endpoints_is_403(stage: Stage) -> None:
    routes = (make_route(stage.backend), make_route(stage.backend, alias="second"))
    await stage.publish(make_snapshot(*routes, keys=(make_key(endpoints=("ep-acme-second",)),), version=3))
    assert (await stage.chat({"model": "second"})).status == 200
    answer = await stage.chat({"model": "chat"})
    assert (answer.status, answer.error()["type"]) == (403, "permission_error")


async def test_models_are_those_that_the_key_may_use(stage: Stage) -> None:
    routes = (
        make_route(stage.backend),
        make_route(alias="red-only", team="red"),
        make_route(alias="other", tenant="other"),
        make_route(alias="unlisted"),
    )
    key = make_key(team="blue", endpoints=("ep-acme-chat", "ep-acme-red-only"))
    await stage.publish(make_snapshot(*routes, keys=(key,), version=3))
    headers = {"Authorization": f"Bearer {SECRET}"}
    listed = json.loads((await stage.send("GET", "/v1/models", headers=headers)).body)
    one = {"id": "chat", "object": "model", "created": int(NOW.timestamp()), "owned_by": "acme"}
    assert listed == {"object": "list", "data": [one]}
    assert json.loads((await stage.send("GET", "/v1/models/chat", headers=headers)).body) == one
    assert (await stage.send("GET", "/v1/models/red-only", headers=headers)).status == 404
    assert (await stage.send("POST", "/v1/models", headers=headers)).status == 405


async def test_model_of_any_name_is_found_by_it(stage: Stage) -> None:
    await stage.publish(make_snapshot(make_route(stage.backend, alias="größe/1 €"), version=3))
    listed = await stage.send("GET", "/v1/models/gr%C3%B6%C3%9Fe%2F1%20%E2%82%AC", headers={"X-API-Key": SECRET})
    assert (listed.status, json.loads(listed.body)["id"]) == (200, "größe/1 €")


async def test_endpoint_without_replicas_is_503_with_retry_after(stage: Stage) -> None:
    """Ledger: GW-19."""
    await stage.publish(make_snapshot(make_route(), version=3))
    answer = await stage.chat()
    assert (answer.status, answer.headers["Retry-After"], answer.error()["code"]) == (503, "5", "no_replica")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "missing_model"),
        (b"{}", "missing_model"),
        (b'{"messages":[{"model":"chat"}]}', "missing_model"),
        (b'{"model":1}', "invalid_body"),
        (b'{"model":null}', "invalid_body"),
        (b'{"model":"\\ud8"}', "invalid_body"),
        (b'["model","chat"]', "invalid_body"),
        (b'{"model":"chat"', "invalid_body"),
        (b'{"model":"chat"}}', "invalid_body"),
        (b"\xef\xbb\xbf{}", "invalid_body"),
        ('{"model":"chat"}'.encode("utf-16"), "invalid_body"),
        (b"a=b&model=chat", "invalid_body"),
    ],
)
async def test_body_that_names_no_model_for_sure_is_400(stage: Stage, body: bytes, code: str) -> None:
    answer = await stage.chat(body)
    assert (answer.status, answer.error()["code"]) == (400, code)
    assert stage.replica.received == []


async def test_path_outside_v1_or_spelled_to_be_misread_is_404(stage: Stage) -> None:
    paths = [
        "/",
        "/v1",
        "/metrics",
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "/v1/..%2fmetrics",
        "/v1//x",
        "/v1/x%00",
        "/v1/%252e%252e/x",
    ]
    for path in paths:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {SECRET}\r\nContent-Length: 16\r\nConnection: close\r\n\r\n"
        )
        answer = await stage.raw(head.encode() + b'{"model":"chat"}')
        assert answer.startswith(b"HTTP/1.1 404 "), path
    assert stage.replica.received == []


async def test_request_id_of_up_to_128_characters_is_kept_and_a_longer_one_replaced(stage: Stage) -> None:
    """Ledger: GW-03."""
    kept, replaced = "k" * 128, "r" * 129
    assert (await stage.chat(headers={"X-Request-ID": kept})).headers["X-Request-ID"] == kept
    made = (await stage.chat(headers={"X-Request-ID": replaced})).headers["X-Request-ID"]
    assert re.fullmatch("req_[0-9a-f]{32}", made)
    refused = await stage.chat({"model": "nowhere"}, headers={"X-Request-ID": kept})
    assert refused.headers["X-Request-ID"] == kept
    assert [request.header("x-request-id") for request in stage.replica.received] == [kept, made]


async def test_trace_is_passed_on_when_well_formed_and_made_otherwise(stage: Stage) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await stage.chat(headers={"traceparent": parent, "tracestate": "a=b"})
    await stage.chat(headers={"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01", "tracestate": "a=b"})
    await stage.chat()
    first, *others = stage.replica.received
    assert (first.header("traceparent"), first.header("tracestate")) == (parent, "a=b")
    for request in others:
        assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", request.header("traceparent") or "")
        assert request.header("tracestate") is None


async def test_credentials_and_hop_by_hop_headers_never_reach_the_replica(stage: Stage) -> None:
    secret_headers = {
        "X-API-Key": SECRET,
        "api-key": SECRET,
        "Cookie": "session=1",
        "Proxy-Authorization": "Basic x",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "Keep-Alive": "timeout=5",
        "TE": "trailers",
        "X-Kept": "yes",
    }
    await stage.chat(headers=secret_headers)
    seen = stage.replica.received[0]
    names = {name.lower() for name, _ in seen.headers}
    withheld = {name.lower() for name in secret_headers} - {"x-kept"} | {"authorization"}
    assert names & withheld == set()
    assert SECRET not in str(seen.headers)
    assert seen.header("x-kept") == "yes"


async def test_hop_by_hop_headers_of_the_replica_never_reach_the_caller(stage: Stage) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        fields = b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n"
        fields += b"X-Request-ID: theirs\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + fields + b"X-Kept: yes\r\nContent-Length: 0\r\n\r\n")

    stage.replica.script = answer
    got = await stage.chat(headers={"X-Request-ID": "ours"})
    assert {name.lower() for name in got.headers} == {"x-kept", "x-request-id", "content-length"}
    assert got.headers.getall("X-Request-ID") == ["ours"]  # type: ignore[attr-defined]


async def test_no_secret_stands_in_any_log_line(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    await stage.chat(secret="tnt-wrong-secret")
    await stage.chat()
    stage.replica.stop_listening()
    await stage.chat()
    text = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "upstream_failed" in text
    assert SECRET not in text
    assert "tnt-wrong-secret" not in text


async def test_replicas_take_requests_in_turn(stage: Stage) -> None:
    backends = [
        stage.backend,
        *(type(stage.backend)(host=f"r{n}.example.com", address=stage.backend.address, tls=False) for n in (1, 2)),
    ]
    await stage.publish(make_snapshot(make_route(*backends), version=3))
    for _ in range(30):
        await stage.chat()
    hosts = [request.header("host") for request in stage.replica.received]
    assert {host: hosts.count(host) for host in set(hosts)} == {backend.host: 10 for backend in backends}


@pytest.mark.parametrize(
    ("kind", "path", "status"),
    [
        ("transcription", "/v1/chat/completions", 400),
        ("transcription", "/v1/completions", 400),
        ("transcription", "/v1/responses?x=1", 400),
        ("transcription", "/v1/embeddings", 400),
        ("embedding", "/v1/chat/completions", 400),
        ("embedding", "/v1/%63hat%2Fcompletions?x=1", 400),
        ("embedding", "/v1/embeddings", 200),
        ("embedding", "/v1/rerank", 200),
        ("transcription", "/v1/audio/transcriptions", 200),
        ("chat", "/v1/embeddings", 200),
        ("chat", "/v1/vendor/own", 200),
    ],
)
async def test_path_has_to_fit_the_kind_of_model(stage: Stage, kind: str, path: str, status: int) -> None:
    """RUN-02: what a model cannot answer is refused here; paths of vendors are between caller and engine."""
    await stage.publish(make_snapshot(replace(make_route(stage.backend), kind=kind), version=3))
    answer = await stage.send("POST", path, data=b'{"model":"chat"}', headers={"X-API-Key": SECRET})
    assert answer.status == status
    assert len(stage.replica.received) == (1 if status == 200 else 0)
    if status != 200:
        assert answer.error()["code"] == "unsupported_path"


async def test_more_tokens_than_the_route_allows_are_refused(stage: Stage) -> None:
    await stage.publish(make_snapshot(replace(make_route(stage.backend), max_tokens=100), version=3))
    assert (await stage.chat({"model": "chat", "max_tokens": 100})).status == 200
    answer = await stage.chat({"model": "chat", "max_completion_tokens": 101})
    assert (answer.status, answer.error()["code"]) == (400, "max_tokens_exceeded")
    assert answer.error()["param"] == "max_completion_tokens"
    assert len(stage.replica.received) == 1


async def test_replica_that_wants_a_credential_gets_its_own_and_never_the_caller_s(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    """FAL-06: the snapshot names it, a file holds it."""
    (tmp_path / "engine-key").write_text("sk-engine\n")
    async with make_stage(secrets=tmp_path) as stage:
        backend = replace(stage.backend, credential="engine-key")
        await stage.publish(make_snapshot(make_route(backend), version=3))
        assert (await stage.chat()).status == 200
    assert [value for name, value in stage.replica.received[0].headers if name == "authorization"] == [
        "Bearer sk-engine"
    ]


async def test_engine_that_is_asked_for_usage_is_asked_for_plain_text(stage: Stage) -> None:
    coded = {"Accept-Encoding": "gzip, br"}
    await stage.chat({"model": "chat", "stream": True}, headers=coded)
    await stage.chat({"model": "chat"}, headers=coded)
    asked, other = stage.replica.received
    assert json.loads(asked.body)["stream_options"] == {"include_usage": True}
    assert asked.header("accept-encoding") == "identity"
    assert other.header("accept-encoding") == "gzip, br"


async def test_usage_is_asked_for_on_a_known_path_however_it_is_spelled(stage: Stage) -> None:
    path = "/v1/%63hat/completions?x=1"
    await stage.send("POST", path, json={"model": "chat", "stream": True}, headers={"X-API-Key": SECRET})
    assert stage.replica.received[0].line == f"POST {path} HTTP/1.1"
    assert json.loads(stage.replica.received[0].body)["stream_options"] == {"include_usage": True}
    assert any('gen_ai_operation_name="chat"' in line for line in stage.gateway._accounting.measures.lines())
