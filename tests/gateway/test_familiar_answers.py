"""Answers that repeat the header block of an earlier one mean what they would mean alone, however they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.gateway.conftest import Stage
from tests.gateway.stub import Received, Script

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\nx-engine: a\r\n\r\n"


def whole(body: bytes, head: bytes = HEAD) -> bytes:
    """An answer with its length between other fields."""
    return head % len(body) + body


def in_turn(*answers: Sequence[bytes]) -> Script:
    """Gives the answers one after the other, each in the pieces in which it is to be read."""
    left = list(answers)

    async def script(_: Received, writer: asyncio.StreamWriter) -> None:
        for piece in left.pop(0):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)

    return script


async def test_every_answer_has_its_own_length_and_body(stage: Stage) -> None:
    bodies = [b'{"n":%d}' % (10**power) for power in (0, 1, 6, 3)]
    stage.replica.script = in_turn(*([whole(body)] for body in bodies))
    for body in bodies:
        answer = await stage.chat()
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["x-engine"] == "a"
        assert answer.headers["content-length"] == str(len(body))
    assert stage.replica.connections == 1


@pytest.mark.parametrize(
    "other",
    [
        (whole(b'{"cut":1}')[:30], whole(b'{"cut":1}')[30:]),
        (whole(b'{"cut":1}')[:-3], whole(b'{"cut":1}')[-3:]),
        (b"HTTP/1.1 100 Continue\r\n\r\n", whole(b'{"cut":1}')),
        (b"HTTP/1.1 102 Processing\r\n\r\n" + whole(b'{"cut":1}'),),
        (whole(b'{"cut":1}', HEAD.replace(b"x-engine: a", b"x-engine: b")),),
        (whole(b'{"cut":1}', HEAD.replace(b"content-length: %d", b"transfer-encoding: chunked\r\nx-n: %d"))[:-9]
         + b"9\r\n" + b'{"cut":1}' + b"\r\n0\r\n\r\n",),
    ],
    ids=["head in two", "body in two", "interim apart", "interim before", "other field", "chunked"],
)  # fmt: skip
async def test_another_form_between_two_that_are_alike_is_read_as_it_is(stage: Stage, other: Sequence[bytes]) -> None:
    alike = [whole(b'{"n":1}')]
    stage.replica.script = in_turn(alike, alike, other, alike, alike)
    seen = [await stage.chat() for _ in range(5)]
    assert [answer.status for answer in seen] == [200] * 5
    assert [answer.body for answer in seen] == [b'{"n":1}', b'{"n":1}', b'{"cut":1}', b'{"n":1}', b'{"n":1}']


async def test_more_than_the_answer_ends_the_connection_and_reaches_nobody(stage: Stage) -> None:
    alike = whole(b'{"n":1}')
    stage.replica.script = in_turn([alike], [alike + whole(b'{"n":"not yours"}')], [alike])
    seen = [await stage.chat() for _ in range(3)]
    assert [answer.body for answer in seen] == [b'{"n":1}'] * 3
    assert stage.replica.connections == 2


async def test_an_error_after_answers_that_were_alike_is_an_error(stage: Stage) -> None:
    refused = HEAD.replace(b"200 OK", b"401 Unauthorized")
    stage.replica.script = in_turn([whole(b"{}")], [whole(b"{}", refused)], [whole(b"{}", refused)], [whole(b"{}")])
    seen = [await stage.chat() for _ in range(4)]
    assert [answer.status for answer in seen] == [200, 502, 502, 200]


async def test_tokens_of_an_answer_that_is_alike_are_its_own(stage: Stage) -> None:
    bodies = [b'{"usage":{"prompt_tokens":%d,"completion_tokens":1}}' % number for number in (1, 2, 3)]
    stage.replica.script = in_turn(*([whole(body)] for body in bodies))
    seen = [(await stage.chat()).body for _ in range(3)]
    assert seen == bodies
