"""The rewrite of a form's `model` part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.body.request_body import BodyMemory, RequestBody
from provisioner.gateway.refusal import RefusedError

TYPE = b"multipart/form-data; boundary=edge"


def form(*parts: tuple[bytes, bytes], boundary: bytes = b"edge") -> bytes:
    """A form of parts given as header block and content."""
    made = b"".join(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head, content) for head, content in parts)
    return made + b"--%b--\r\n" % boundary


def named(name: bytes) -> bytes:
    """The header of a part."""
    return b'Content-Disposition: form-data; name="%b"' % name


def read(body: bytes, content_type: bytes = TYPE) -> RequestBody:
    """The body, received."""
    request = RequestBody(content_type, 10_000_000, BodyMemory(10_000_000))
    request.append(body)
    return request


@given(st.binary(max_size=300).filter(lambda content: b"\r\n--edge" not in content), st.booleans())
def test_model_is_found_before_or_after_any_file(content: bytes, first: bool) -> None:
    file = (b'Content-Disposition: form-data; name="file"; filename="model"\r\nContent-Type: audio/wav', content)
    model = (named(b"model"), b"chat")
    parts = (model, file) if first else (file, model)
    request = read(form(*parts))
    assert request.model() == "chat"
    rewritten = tuple((head, b"served/chat" if head == model[0] else value) for head, value in parts)
    assert request.rewritten("served/chat") == form(*rewritten)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=edge", b"edge"),
        (b'Multipart/Form-Data; charset=utf-8; Boundary="a b:c"', b"a b:c"),
        (b"multipart/form-data;boundary=----WebKitFormBoundaryA1", b"----WebKitFormBoundaryA1"),
    ],
)
def test_boundary_is_read_as_clients_write_it(content_type: bytes, boundary: bytes) -> None:
    assert read(form((named(b"model"), b"chat"), boundary=boundary), content_type).model() == "chat"


@pytest.mark.parametrize(
    "head",
    [
        b"content-disposition: FORM-DATA; name=model",
        b'Content-Type: text/plain\r\nContent-Disposition: form-data; x=1; name="model"',
        b"Content-Disposition:form-data;name=model",
    ],
)
def test_part_s_name_is_read_as_clients_write_it(head: bytes) -> None:
    assert read(form((head, b"chat"))).model() == "chat"


@pytest.mark.parametrize(
    "head", [named(b"models"), named(b"xmodel"), b'Content-Disposition: form-data; filename="model"', b"X: y"]
)
def test_other_parts_are_not_the_model(head: bytes) -> None:
    with pytest.raises(RefusedError, match="required"):
        read(form((head, b"chat"))).model()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (form((named(b"model"), b"chat")), b"multipart/form-data"),
        (form((named(b"model"), b"chat")), b"multipart/form-data; boundary=other"),
        (form((named(b"model"), b"chat"))[:-10], TYPE),
        (form((named(b"model"), b"\xff")), TYPE),
        (b"--edge\r\n" + named(b"model") + b"\r\n\r\n--edge--", TYPE),
        (form(*[(named(b"x"), b"")] * 300), TYPE),
        (b"--edgeX" + form((named(b"model"), b"chat")), TYPE),
        (b'{"model":"chat"}', TYPE),
    ],
    ids=["no-boundary", "other-boundary", "cut", "not-text", "no-content", "too-many", "glued", "json"],
)
def test_form_that_is_not_well_formed_is_400(body: bytes, content_type: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        read(body, content_type).model()
    assert refused.value.refusal.status == 400


@given(st.binary(max_size=200))
def test_no_bytes_break_the_form_reader(body: bytes) -> None:
    try:
        read(b"--edge" + body).model()
    except RefusedError as error:
        assert error.refusal.status == 400
