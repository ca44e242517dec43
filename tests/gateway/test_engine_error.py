"""Errors of an engine: what passes as it is, and what is put into words that a client can read."""

from __future__ import annotations

import asyncio

import pytest

from provisioner.gateway.config import Limits
from tests.gateway.conftest import Stage, StageMaker, until
from tests.gateway.stub import Received


def answer_with(stage: Stage, status: int, body: bytes, fields: bytes = b"") -> None:
    """Lets the replica answer so."""

    async def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d No\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body))

    stage.replica.script = script


@pytest.mark.parametrize(
    "media_type", [b"application/json", b"Application/JSON; charset=utf-8", b"application/problem+json"]
)
@pytest.mark.parametrize("status", [400, 404, 418, 422, 429, 500, 502, 503, 504])
async def test_json_error_passes_as_it_is(stage: Stage, status: int, media_type: bytes) -> None:
    answer_with(stage, status, b'{"error":{"x":1}}', b"Content-Type: %b\r\nRetry-After: 7\r\n" % media_type)
    answer = await stage.chat()
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (status, b'{"error":{"x":1}}', "7")


async def test_429_that_says_when_to_come_back_passes_whatever_it_holds(stage: Stage) -> None:
    answer_with(stage, 429, b"slow down", b"Retry-After: 7\r\n")
    answer = await stage.chat()
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (429, b"slow down", "7")


@pytest.mark.parametrize(("status", "told"), [(400, 502), (404, 502), (429, 502), (500, 502), (503, 503), (504, 502)])
async def test_error_that_is_no_json_is_wrapped(stage: Stage, status: int, told: int) -> None:
    answer_with(stage, status, b"out of\r\n memory \xff", b"Content-Type: text/plain\r\n")
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"], answer.error()["type"]) == (told, "upstream_error", "api_error")
    assert answer.error()["message"] == f"The model server answered with the status: {status} (out of memory \ufffd)."
    assert stage.replica.connections == 1
    answer_with(stage, 200, b"")
    assert (await stage.chat()).status == 200
    assert stage.replica.connections == 1


async def test_retry_after_of_a_wrapped_503_is_kept(stage: Stage) -> None:
    answer_with(stage, 503, b"<html>", b"Content-Type: text/html\r\nRetry-After: 9\r\n")
    answer = await stage.chat()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "9")
    assert "html" not in answer.body.decode()


@pytest.mark.parametrize("status", [401, 403])
async def test_engine_that_refuses_the_gateway_is_502(stage: Stage, status: int) -> None:
    answer_with(stage, status, b'{"error":{"message":"wrong key: sk-1"}}', b"Content-Type: application/json\r\n")
    answer = await stage.chat()
    assert (answer.status, answer.error()["code"]) == (502, "upstream_auth")
    assert b"sk-1" not in answer.body


@pytest.mark.parametrize("fields", [b"", b"Content-Type: text/plain\r\n", b"Content-Type: application/json\r\n"])
async def test_what_an_error_is_shows_in_its_body(stage: Stage, fields: bytes) -> None:
    answer_with(stage, 422, b' {"error":{"message":"no","x":1e999}}', fields)
    answer = await stage.chat()
    assert (answer.status, answer.body) == (422, b' {"error":{"message":"no","x":1e999}}')
    for body in (b"", b"no", b"{no}", b'"no"', b'{"a":"\xff"}', b'{"a":1} x'):
        answer_with(stage, 422, body, fields)
        answer = await stage.chat()
        assert (answer.status, answer.error()["code"]) == (502, "upstream_error"), body


@pytest.mark.parametrize(("kind", "status"), [(b"application/json", 500), (b"text/html", 502)])
async def test_very_long_error_is_taken_at_the_word_of_its_type(stage: Stage, kind: bytes, status: int) -> None:
    answer_with(stage, 500, b'{"x":"' + b"x" * 200_000 + b'"}', b"Content-Type: %b\r\n" % kind)
    answer = await stage.chat()
    assert answer.status == status
    assert (len(answer.body) > 200_000) is (status == 500)


@pytest.mark.parametrize("started", [b"", b'{"error":'])
async def test_error_that_stalls_is_waited_for_no_longer_than_any_silence(
    make_stage: StageMaker, started: bytes
) -> None:
    async def stalls(request: Received, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 500 No\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        writer.write(head + started)
        await asyncio.sleep(60)

    async with make_stage(limits=Limits(silence_seconds=0.3, drain_seconds=0.2)) as stage:
        stage.replica.script = stalls
        async with asyncio.timeout(30):
            assert (await stage.chat()).status == 504


async def test_wrapped_error_without_end_is_cut(stage: Stage) -> None:
    async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            await writer.drain()

    stage.replica.script = endless
    answer = await stage.chat()
    assert answer.status == 502
    assert len(answer.body) < 1500
    await until(stage.replica.left.is_set)


async def test_cookies_of_an_engine_never_reach_the_caller(stage: Stage) -> None:
    answer_with(stage, 200, b"{}", b"Set-Cookie: session=1\r\nX-Kept: yes\r\n")
    answer = await stage.chat()
    assert "Set-Cookie" not in answer.headers
    assert answer.headers["X-Kept"] == "yes"
