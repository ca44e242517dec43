"""The reader against bytes of any kind: it never breaks, and how they are cut changes nothing but the moment."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.caller.reader import RequestReader
from provisioner.gateway.config import ControlPlane, GatewayConfig, Limits
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.directory import Directory
from provisioner.gateway.server import Gateway
from tests.gateway.stub import CREDENTIAL, SteppedClock, make_snapshot
from tests.gateway.test_corpus import CASES, sent

SEEDS = [sent(case.read_text().splitlines()[3:]) for case in CASES if case.stat().st_size < 2000]
SMALL = [seed for seed in SEEDS if len(seed) < 1500]
PARTS = (
    b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nRIFF\r\n'
    b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nchat\r\n--x--\r\n'
)
FORM = (
    b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nX-API-Key: tnt-acme-secret\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n%b" % (len(PARTS), PARTS)
)


@cache
def data_path() -> DataPath:
    """That of a gateway which serves nobody."""
    limits = Limits(body_bytes=2000, header_bytes=4000, body_memory_bytes=1_000_000)
    control = ControlPlane(url="http://127.0.0.1:1", credential=CREDENTIAL, snapshot_file=Path("never-written"))

    async def make() -> DataPath:
        config = GatewayConfig(listen_host="127.0.0.1", listen_port=0, control=control, limits=limits)
        path = Gateway(config, clock=SteppedClock(), random=Random(1))._path
        path.directory = Directory(make_snapshot())
        return path

    return asyncio.run(make())


def told(data: bytes, cuts: Sequence[int]) -> list[object]:
    """What is read of `data`, cut at `cuts`: each request or its refusal, and the one that ends the connection."""
    reader, found = RequestReader(data_path()), list[object]()
    refusal, seen = None, set[int]()
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    requests = []
    for start, end in itertools.pairwise(edges):
        if start < end and refusal is None:
            refusal = reader.feed(data[start:end])
        while reader.ready:
            requests.append(reader.ready.popleft())
    for request in requests:
        assert id(request) not in seen
        seen.add(id(request))
        if request.refusal is not None:
            found.append(request.refusal.status)
        elif isinstance(request.body, FormBody) and request is not reader.pending and request.body.is_whole:
            found.append((request.method, request.target, b"".join(iter(request.body.take, b""))))
        elif isinstance(request.body, JsonBody):
            found.append((request.method, request.target, bytes(request.body._data)))
    reader.release()
    return found if refusal is None else [*found, refusal.status]


@st.composite
def connections(draw: st.DrawFn) -> bytes:
    """Bytes near to what the corpus holds: cut, doubled, changed, joined."""
    data = bytearray(draw(st.sampled_from([*SMALL, FORM])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from(["cut", "put", "double", "change"]))
        if change == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif change == "put":
            data[at:at] = draw(
                st.sampled_from([b"\r\n", b"\n", b"\r", b" ", b"\0", b":", b";", b"0", b"\r\n\r\n", b"\xff"])
            )
        elif change == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 60))]
        elif at < len(data):
            data[at] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        data += draw(st.sampled_from(SMALL))
    return bytes(data)


@settings(max_examples=400)
@given(connections(), st.lists(st.integers(0, 4000), max_size=6))
def test_cuts_change_nothing_of_what_is_read(data: bytes, cuts: list[int]) -> None:
    assert told(data, cuts) == told(data, ())


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=4))
def test_no_bytes_break_the_reader(data: bytes, cuts: list[int]) -> None:
    assert told(data, cuts) == told(data, ())


def test_seeds_are_there() -> None:
    assert len(SMALL) > 50
    assert told(FORM, ()) == told(FORM, range(len(FORM)))
    assert len(told(FORM, ())) == 1


def test_header_block_is_bounded_alike_wherever_a_piece_ends() -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-API-Key: tnt-acme-secret\r\n"
    first = head + b"\r\n"
    for size, second in ((4000, (b"GET", b"/v1/models", b"")), (4001, 431)):
        block = head + b"X: %b\r\n\r\n" % (b"x" * (size - len(head) - len(b"X: \r\n\r\n")))
        for cut in range(0, len(first + block), 50):
            assert told(first + block, (cut,)) == [(b"GET", b"/v1/models", b""), second], cut
