"""Forms on their way through: the model found wherever it stands, its part renamed, every other byte as it came."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.body.form_body import FormBody
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.body.spool import MEMORY_BYTES
from provisioner.gateway.refusal import RefusedError

TYPE = b"multipart/form-data; boundary=edge"


def form(*parts: tuple[bytes, bytes], boundary: bytes = b"edge") -> bytes:
    """A form of parts given as header block and content."""
    made = b"".join(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head, content) for head, content in parts)
    return made + b"--%b--\r\n" % boundary


def named(name: bytes) -> bytes:
    """The header of a part."""
    return b'Content-Disposition: form-data; name="%b"' % name


def received(body: bytes, content_type: bytes = TYPE, cuts: Iterable[int] = ()) -> FormBody:
    """The form, arrived in pieces cut at `cuts`."""
    made = FormBody(content_type, 10_000_000, BodyMemory(10_000_000), len(body))
    edges = [0, *sorted({cut % (len(body) + 1) for cut in cuts}), len(body)]
    for start, end in itertools.pairwise(edges):
        if start < end:
            made.append(body[start:end])
    made.end()
    return made


def taken(form: FormBody) -> bytes:
    """All that can be taken."""
    return b"".join(iter(form.take, b""))


@given(
    st.binary(max_size=300).filter(lambda content: b"\r\n--edge" not in content),
    st.booleans(),
    st.lists(st.integers(0, 10_000), max_size=8),
)
def test_model_is_renamed_before_or_after_any_file_however_it_is_cut(
    content: bytes, is_first: bool, cuts: list[int]
) -> None:
    file = (b'Content-Disposition: form-data; name="file"; filename="model"\r\nContent-Type: audio/wav', content)
    model = (named(b"model"), b"chat")
    parts = (model, file) if is_first else (file, model)
    request = received(form(*parts), cuts=cuts)
    assert request.model() == "chat"
    expected = form(*((head, b"served/chat" if head == model[0] else value) for head, value in parts))
    assert request.rename("served/chat") == len(expected)
    assert taken(request) == expected


@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=40)), max_size=20))
def test_form_is_handed_on_while_it_arrives(steps: list[tuple[bool, bytes]]) -> None:
    """What is taken in between does not change what comes out."""
    start = form((named(b"model"), b"chat"))[: -len(b"--edge--\r\n")] + b"--edge\r\n" + named(b"file") + b"\r\n\r\n"
    request = FormBody(TYPE, 10_000_000, BodyMemory(10_000_000), None)
    request.append(start)
    assert request.is_named
    assert request.rename("m") is None
    out, content = b"", b""
    for takes, piece in steps:
        piece = piece.replace(b"\r\n--edge", b"")
        request.append(piece)
        content += piece
        if takes:
            out += taken(request)
    request.append(b"\r\n--edge--")
    if b"\r\n--edge" in content:
        return
    request.end()
    assert out + taken(request) == start.replace(b"chat", b"m") + content + b"\r\n--edge--"


def test_model_is_known_as_soon_as_its_part_has_passed() -> None:
    body = form((named(b"x"), b"1"), (named(b"model"), b"chat"), (named(b"file"), b"RIFF"))
    known_at = body.index(b"chat") + len(b"chat\r\n--edge")
    request = FormBody(TYPE, 10_000_000, BodyMemory(10_000_000), len(body))
    for at in range(len(body)):
        assert request.is_named == (at >= known_at)
        request.append(body[at : at + 1])


def test_memory_stays_flat_however_long_the_file_is() -> None:
    memory = BodyMemory(10_000_000)
    request = FormBody(TYPE, 100_000_000, memory, None)
    piece = os.urandom(65_536).replace(b"\r", b"x")
    start = b"--edge\r\n" + named(b"file") + b"\r\n\r\n"
    end = b"\r\n" + form((named(b"model"), b"chat"))
    tracemalloc.start()
    request.append(start)
    for _ in range(1000):
        request.append(piece)
    request.append(end)
    request.end()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2 * MEMORY_BYTES
    assert memory.held_bytes == 0
    request.rename("served/chat")
    size = sum(map(len, iter(request.take, b"")))
    assert size == len(start) + 1000 * len(piece) + len(end) + len(b"served/")


def test_bytes_in_memory_count_until_they_are_taken_or_the_form_ends() -> None:
    memory = BodyMemory(1000)
    body = form((named(b"model"), b"chat"))
    request = FormBody(TYPE, 10_000, memory, len(body))
    request.append(body)
    assert memory.held_bytes == len(body)
    request.rename("m")
    request.take()
    assert memory.held_bytes < len(body)
    del request
    assert memory.held_bytes == 0


def test_form_over_its_bound_is_413_and_over_that_of_all_is_503() -> None:
    for limit_bytes, memory_bytes, status in [(100, 1000, 413), (1000, 100, 503)]:
        request = FormBody(TYPE, limit_bytes, BodyMemory(memory_bytes), None)
        with pytest.raises(RefusedError) as refused:
            request.append(form((named(b"file"), b"x" * 200)))
        assert (refused.value.refusal.status, refused.value.refusal.closes) == (status, True)


def test_full_disk_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    request = FormBody(TYPE, 10_000_000, BodyMemory(10_000_000), None)
    request.append(b"--edge\r\n" + named(b"file") + b"\r\n\r\n")
    with pytest.raises(RefusedError) as refused:
        for _ in range(20):
            request.append(b"x" * 100_000)
    assert (refused.value.refusal.status, refused.value.refusal.closes) == (503, True)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=edge", b"edge"),
        (b'Multipart/Form-Data; charset=utf-8; Boundary="a b:c"', b"a b:c"),
        (b"multipart/form-data;boundary=----WebKitFormBoundaryA1", b"----WebKitFormBoundaryA1"),
    ],
)
def test_boundary_is_read_as_clients_write_it(content_type: bytes, boundary: bytes) -> None:
    assert received(form((named(b"model"), b"chat"), boundary=boundary), content_type).model() == "chat"


@pytest.mark.parametrize(
    "head",
    [
        b"content-disposition: FORM-DATA; name=model",
        b'Content-Type: text/plain\r\nContent-Disposition: form-data; x=1; name="model"',
        b"Content-Disposition:form-data;name=model",
    ],
)
def test_part_s_name_is_read_as_clients_write_it(head: bytes) -> None:
    assert received(form((head, b"chat"))).model() == "chat"


@pytest.mark.parametrize(
    "head", [named(b"models"), named(b"xmodel"), b'Content-Disposition: form-data; filename="model"', b"X: y"]
)
def test_other_parts_are_not_the_model(head: bytes) -> None:
    with pytest.raises(RefusedError, match="required"):
        received(form((head, b"chat"))).model()


AMBIGUOUS = [
    named(b"x") + b"\r\n" + named(b"model"),
    named(b"x") + b"\n" + named(b"model"),
    named(b"x") + b"\r" + named(b"model"),
    b'Content-Disposition: form-data;\r\n name="model"',
    b"Content-Disposition: form-data; name*=utf-8''model",
    b"Content-Disposition: form-data; name*0=mod; name*1=el",
    b'Content-Disposition: form-data; name="x"; name="model"',
    b'Content-Disposition: form-data; name="mo\\del"',
    b'Content-Disposition: form-data; name="x" name="model"',
    b'Content-Disposition: attachment; name="model"',
    b'Content-Disposition: form-data; name="model',
]
"""Header blocks of a part in which one reader finds another name than the next."""


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (form((named(b"model"), b"chat")), b"multipart/form-data"),
        (form((named(b"model"), b"chat")), b"multipart/form-data; boundary=other"),
        (form((named(b"model"), b"chat")), b"multipart/form-data; boundary=edge; boundary=other"),
        (form((named(b"model"), b"chat")), b'multipart/form-data; boundary=edge; Boundary="edge"'),
        (form((named(b"model"), b"chat"))[:-10], TYPE),
        (form((named(b"model"), b"\xff")), TYPE),
        (b"--edge\r\n" + named(b"model") + b"\r\n\r\n--edge--", TYPE),
        (form(*[(named(b"x"), b"")] * 300), TYPE),
        (form((named(b"model"), b"chat"), (named(b"model"), b"chat")), TYPE),
        (form((named(b"model"), b"c" * 5000)), TYPE),
        (form((b"X: " + b"x" * 9000, b"")), TYPE),
        *((form((head, b"chat")), TYPE) for head in AMBIGUOUS),
        (b"--edgeX" + form((named(b"model"), b"chat")), TYPE),
        (b'{"model":"chat"}', TYPE),
    ],
)
def test_form_that_is_not_well_formed_is_400(body: bytes, content_type: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        received(body, content_type).model()
    assert refused.value.refusal.status == 400


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_break_the_form_reader_and_cuts_change_nothing(body: bytes, cuts: list[int]) -> None:
    def told(*cuts: int) -> object:
        try:
            return received(b"--edge" + body, cuts=cuts).model()
        except RefusedError as error:
            return error.refusal.status

    assert told(*cuts) == told()
