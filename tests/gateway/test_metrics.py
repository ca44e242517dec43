"""The operator's page for Prometheus: what requests took and used, under the names that dashboards know."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

from provisioner.domain.exposition import CONTENT_TYPE
from provisioner.domain.snapshot import QueueGroup
from tests.gateway.conftest import Stage, until
from tests.gateway.stub import OK, SECRET, Received, make_key, make_route, make_snapshot
from tests.gateway.test_usage import CHAT, DONE, EXTRA, answers, event

LINE = re.compile(r'([a-z_:]+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="([^"]*)"')


async def samples(stage: Stage, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """The samples of a metric, by their labels; every line of the page has to be one of its text format."""
    async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/metrics") as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE  # by which Prometheus chooses how to read it
        text = await answer.text()
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match is not None, line
        if match[1] == name:
            found[frozenset(LABEL.findall(match[2] or ""))] = float(match[3])
    return found


def labels(**more: str) -> frozenset[tuple[str, str]]:
    """The labels of a chat with acme's endpoint."""
    chat = {
        "gen_ai_operation_name": "chat",
        "gen_ai_provider_name": "tenantry",
        "gen_ai_request_model": "served/chat",
        "endpoint": "ep-acme-chat",
    }
    return frozenset({**chat, **more}.items())


async def test_requests_are_measured_under_the_names_of_opentelemetry(stage: Stage) -> None:
    stage.replica.script = answers(CHAT + event(EXTRA) + DONE, "text/event-stream")
    for _ in range(2):
        await stage.chat({"model": "chat", "stream": True, "stream_options": {"include_usage": True}})
    duration = "gen_ai_server_request_duration_seconds"
    assert (await samples(stage, f"{duration}_count"))[labels(error_type="")] == 2
    assert (await samples(stage, f"{duration}_bucket"))[labels(error_type="", le="81.92")] == 2
    assert 0 <= (await samples(stage, f"{duration}_sum"))[labels(error_type="")] < 20
    tokens = await samples(stage, "gen_ai_client_token_usage_sum")
    assert tokens == {labels(gen_ai_token_type="input"): 18, labels(gen_ai_token_type="output"): 8}
    buckets = await samples(stage, "gen_ai_client_token_usage_bucket")
    assert buckets[labels(gen_ai_token_type="output", le="4")] == 2
    assert buckets[labels(gen_ai_token_type="output", le="1")] == 0
    for metric in ("time_to_first_token", "time_per_output_token"):
        assert (await samples(stage, f"gen_ai_server_{metric}_seconds_count"))[labels()] == 2


async def test_errors_are_told_apart_and_what_no_engine_told_is_in_no_histogram(stage: Stage) -> None:
    async def busy(request: Received, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"error": {"message": "busy", "type": "x", "param": None, "code": None}}).encode()
        writer.write(
            b"HTTP/1.1 429 Busy\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        writer.write(body)

    assert (await stage.chat()).status == 200
    stage.replica.script = busy
    assert (await stage.chat()).status == 429
    await stage.publish(make_snapshot(make_route(), version=3))
    assert (await stage.chat()).status == 503
    counts = await samples(stage, "gen_ai_server_request_duration_seconds_count")
    assert counts == {labels(error_type=error): 1 for error in ("", "429", "shed")}
    assert not await samples(stage, "gen_ai_client_token_usage_count")
    assert not await samples(stage, "gen_ai_server_time_to_first_token_seconds_count")


async def test_no_label_holds_what_a_caller_or_customer_chose(stage: Stage) -> None:
    route = replace(make_route(stage.backend, alias="my-secret-alias"), upstream_model="served/chat")
    await stage.publish(make_snapshot(route, keys=(replace(make_key(), name="my-secret-key"),), version=3))
    await stage.chat({"model": "my-secret-alias"}, headers={"X-Request-ID": "my-secret-id"})
    await stage.chat({"model": "my-secret-model"})
    await stage.send(
        "POST", "/v1/my-secret-path?my-secret=1", data=b'{"model":"my-secret-alias"}', headers={"X-API-Key": SECRET}
    )
    async with stage.http.get(f"http://127.0.0.1:{stage.gateway.admin_port}/metrics") as answer:
        text = await answer.text()
    assert 'gen_ai_operation_name="other"' in text
    assert "my-secret-alias" not in text.replace("ep-acme-my-secret-alias", "")
    for secret in ("key", "id", "model", "path", "=1"):
        assert f"my-secret-{secret}" not in text


async def test_requests_that_wait_are_told_by_endpoint(stage: Stage) -> None:
    """Dashboards and the operator see them; what a scaler is told is `demand`."""
    free = asyncio.Event()

    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        await free.wait()
        writer.write(OK)

    stage.replica.script = slow
    idle = make_route(stage.backend, alias="idle")
    group = QueueGroup(name="g", slots=1)
    await stage.publish(
        replace(make_snapshot(replace(make_route(stage.backend), group="g"), idle, version=3), groups=(group,))
    )
    asked = [asyncio.create_task(stage.chat()) for _ in range(4)]
    await until(lambda: len(stage.replica.received) == 1)
    waiting = {
        frozenset({("endpoint", "ep-acme-chat")}): 3,
        frozenset({("endpoint", "ep-acme-idle")}): 0,
    }
    async with asyncio.timeout(30):
        while await samples(stage, "tenantry_gateway_waiting_requests") != waiting:
            await asyncio.sleep(0.01)
    queued = await samples(stage, "tenantry_gateway_queued_requests")
    assert queued == {frozenset({("class", "interactive")}): 0, frozenset({("class", "background")}): 3}
    slots = await samples(stage, "tenantry_gateway_slots")
    assert slots == {frozenset({("state", "all")}): 1, frozenset({("state", "taken")}): 1}
    free.set()
    assert [(await answer).status for answer in asked] == [200] * 4
    assert set((await samples(stage, "tenantry_gateway_waiting_requests")).values()) == {0}
