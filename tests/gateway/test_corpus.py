"""Malformed and hostile requests, each in a file of `corpus`: what is refused, and that nothing is smuggled in."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.gateway.conftest import Stage
from tests.gateway.stub import SECRET
from tests.gateway.test_http import SMUGGLED, statuses

CASES = sorted((Path(__file__).parent / "corpus").glob("*.http"))
PARTS = {
    b"$KEY": SECRET.encode(),
    b"$SMUGGLED": SMUGGLED,
    b"$MUCH": b"x" * 40_000,
    b"$MANY": b"".join(b"X%d: 1\r\n" % number for number in range(101)),
    b"$BODY": b" " * 17_000_000,
    b"$ENDLESS": b"x" * 600_000,
}


def sent(lines: list[str]) -> bytes:
    """The bytes that the lines of a case stand for."""
    data = b"".join(line.encode("latin-1").decode("unicode_escape").encode("latin-1") for line in lines)
    return re.sub(rb"\$[A-Z]+", lambda name: PARTS[name[0]], data)


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
async def test_request_of_the_corpus_is_read_as_expected(stage: Stage, case: Path) -> None:
    why, expect, _, *lines = case.read_text().splitlines()
    expected = expect.removeprefix("expect: ").split()
    closes = expected[-1] == "close"
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    received = b""
    try:
        writer.write(sent(lines))
        async with asyncio.timeout(30):
            while len(statuses(received)) < len(expected) - closes or closes:
                piece = await reader.read(65_536)
                received += piece
                if not piece:
                    break
        assert [str(status) for status in statuses(received)] == expected[: len(expected) - closes], received
        assert (b"connection: close" in received) == closes
    finally:
        writer.transport.abort()
    if int(expected[0]) >= 400:
        assert stage.replica.received == []
    if "Allow: " in why:
        assert f"allow: {why.partition('Allow: ')[2]}\r\n".encode() in received
