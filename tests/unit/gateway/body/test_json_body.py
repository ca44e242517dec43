"""The JSON body: what is refused, what changes on its way to the engine, and that nothing else does."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from provisioner.gateway.body.json_body import JsonBody
from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.refusal import RefusedError
from tests.unit.gateway.body.test_json_fields import bodies, spelled

ASKED = b'"stream_options":{"include_usage":true}'


def received(body: bytes, *, cut: int | None = None) -> JsonBody:
    """A body that has arrived, in one piece or in two."""
    made = JsonBody(10_000_000, BodyMemory(100_000_000))
    for piece in (body,) if cut is None else (body[:cut], body[cut:]):
        if piece:
            made.append(piece)
    return made


def long_body(body: bytes) -> JsonBody:
    """A body of any length that has arrived in one piece."""
    made = JsonBody(100_000_000, BodyMemory(100_000_000))
    made.append(body)
    return made


def asking(body: bytes) -> tuple[bytes, bool]:
    """The body that goes on when the gateway wants the usage, the model staying."""
    made = received(body)
    rewritten, has_asked = made.rewritten(made.model(), wants_usage=True)
    return bytes(rewritten), has_asked


@given(bodies(), st.integers(0, 400), st.booleans())
def test_rewritten_body_differs_in_nothing_but_the_model(
    made: tuple[bytes, list[tuple[str, str]]], cut: int, wants_usage: bool
) -> None:
    """GW-05: every other byte stays: numbers of any size, escapes, duplicate keys, their order, white space."""
    body, members = made
    request = received(body, cut=min(cut, len(body)))
    models = [text for name, text in members if name == "model"]
    if len(models) != 1:
        with pytest.raises(RefusedError):
            request.model()
        return
    assert request.model() == json.loads(body)["model"]
    rewritten, has_asked = request.rewritten("served/ü", wants_usage=wants_usage)
    assert not has_asked
    start = _start_of_model(body, members)
    assert rewritten == body[:start] + b'"served/\\u00fc"' + body[start + len(models[0].encode()) :]


def _start_of_model(body: bytes, members: list[tuple[str, str]]) -> int:
    """Where the value of `model` stands, told by walking over all members and the white space between them."""
    text, position = body.decode(), body.decode().index("{") + 1
    decoder = json.JSONDecoder(strict=False)
    for name, value in members:
        position = _skip(text, position)
        _, position = decoder.raw_decode(text, position)
        position = _skip(text, _skip(text, position) + 1)
        if name == "model":
            return len(text[:position].encode())
        position = _skip(text, position + len(value)) + 1
    raise AssertionError("there is no model")


def _skip(text: str, position: int) -> int:
    while text[position] in " \t\n\r":
        position += 1
    return position


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=30))
@example(10**400, 1e-323, '\\"\u2028\ud83d\ude00'.encode("utf-16", "surrogatepass").decode("utf-16"))
def test_numbers_and_texts_pass_as_they_were_spelled(whole: int, real: float, text: str) -> None:
    rest = f',"a":{whole}e5,"b":{real!r}0,"a":1.10,"t":{json.dumps(text)},"u":{json.dumps(text, ensure_ascii=False)}}}'
    if "e" in repr(real) or "\ud800" <= max(text, default="") <= "\udfff":
        rest = f',"a":{whole},"a":1.10}}'
    body = '{"model":"chat"' + rest
    request = received(body.encode())
    assert request.model() == "chat"
    assert request.rewritten("m") == (('{"model":"m"' + rest).encode(), False)


@pytest.mark.parametrize("value", ["01", "1.2.3", "trfalse", '"\\x"', "[1,2}}", '"\t"', "[1 2]", '{"a"}', ""])
def test_what_is_no_json_is_not_left_to_the_engine(value: str) -> None:
    with pytest.raises(RefusedError, match="cannot be read"):
        received(b'{"model":"a","x":%b}' % value.encode()).model()


def test_half_a_surrogate_pair_and_deep_nesting_are_json() -> None:
    assert received(b'{"model":"a","x":"\\ud800","y":' + b"[" * 300 + b"]" * 300 + b"}").model() == "a"


@pytest.mark.parametrize("part", [b'"k%d":1,', b'"":%d,', b"[" * 40 + b"%d" + b"]" * 40])
def test_body_of_very_many_parts_is_refused_early(part: bytes) -> None:
    many = b"".join(part % number for number in range(200_000))
    body = (
        b'{"x":[' + many.replace(b"][", b"],[") + b'],"model":"a"}'
        if part[:1] == b"["
        else b"{" + many + b'"model":"a"}'
    )
    with pytest.raises(RefusedError, match="too many parts"):
        long_body(body).model()


@pytest.mark.parametrize("padding", [b"", b" " * 70_000], ids=["small", "big"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"a"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b'{"model":"a","x":NaN}',
        b'{"model":"a","x":[-Infinity]}',
        b'{"model":"a","x":"\xff"}',
        b'{"model":"a","\xc3":1}',
        b'{"model":"a","x":"\xed\xa0\x80"}',
        b'{"model":"a\xc0\x80"}',
        b'{"model":{"a":1}}',
        b'{"model":true}',
    ],
)
def test_body_that_can_be_read_in_two_ways_is_400(body: bytes, padding: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        received(body + padding).model()
    assert (refused.value.refusal.status, refused.value.refusal.code) == (400, "invalid_body")


def test_character_at_the_edge_of_what_is_decoded_at_a_time_is_read_whole() -> None:
    start = b'{"model":"a","x":"'
    body = start + b"x" * (1024 * 1024 - len(start) - 1) + "ü".encode() + b'"}'
    assert received(body).model() == "a"
    with pytest.raises(RefusedError):
        received(body[:-2] + b"\xc3").model()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a","stream":true}', b'{"model":"a",' + ASKED + b',"stream":true}'),
        (b'{"stream":true , "model" : "a"}', b'{"stream":true , "model" : "a",' + ASKED + b"}"),
        (b'{"model":"a","stream":true,"stream_options":null}', b'{"model":"a","stream":true,' + ASKED + b"}"),
        (b'{"model":"a","stream":true,"stream_options":{}}', b'{"model":"a","stream":true,' + ASKED + b"}"),
        (
            b'{"stream_options":{ "x":1},"model":"a","stream":true}',
            b'{"stream_options":{"include_usage":true, "x":1},"model":"a","stream":true}',
        ),
        (
            b'{"stream_options":{"x":{"include_usage":true},"include_usage": false},"model":"a","stream":true}',
            b'{"stream_options":{"x":{"include_usage":true},"include_usage": true},"model":"a","stream":true}',
        ),
        (
            b'{"stream":false,"str\\u0065am":true,"model":"a"}',
            b'{"stream":false,"str\\u0065am":true,"model":"a",' + ASKED + b"}",
        ),
    ],
)
def test_engine_is_asked_for_the_usage_of_a_stream(body: bytes, expected: bytes) -> None:
    assert asking(body) == (expected, True)
    long = b"," + json.dumps("x" * 70_000).encode()
    padded = body[:-1] + b',"pad":' + long[1:] + b"}"
    assert asking(padded) == (expected[:-1] + b',"pad":' + long[1:] + b"}", True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a"}',
        b'{"model":"a","stream":false}',
        b'{"model":"a","stream":"true"}',
        b'{"model":"a","stream":true,"stream":false}',
        b'{"model":"a","x":{"stream":true}}',
        b'{"model":"a","stream":true,"stream_options":{"include_usage":true}}',
        b'{"model":"a","stream":true,"stream_options":{"include_usage":1}}',
        b'{"model":"a","stream":true,"stream_options":{"include_usage":false,"include_usage":false}}',
        b'{"model":"a","stream":true,"stream_options":null,"stream_options":{}}',
        b'{"model":"a","stream":true,"stream_options":[]}',
        b'{"model":"a","stream":true,"stream_options":{"x":"' + b"x" * 5000 + b'"}}',
    ],
)
def test_body_is_left_alone_where_nothing_is_to_be_asked(body: bytes) -> None:
    assert asking(body) == (body, False)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.none() | st.text(max_size=5), max_size=4), st.data())
def test_asked_body_says_what_it_said_and_asks(others: dict[str, object], data: st.DataObject) -> None:
    options = data.draw(st.sampled_from([None, {}, {"x": 1}, {"include_usage": False, "y": [1]}, "absent"]))
    members = {**others, "model": "a", "stream": True, "stream_options": options}
    if options == "absent":
        del members["stream_options"]
    order = data.draw(st.permutations(list(members)))
    text = ", ".join(f"{data.draw(spelled(name))} : {json.dumps(members[name])}" for name in order)
    rewritten, has_asked = asking(f"{{{text}}}".encode())
    assert has_asked
    asked = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    assert json.loads(rewritten) == {**members, "stream_options": asked}


@pytest.mark.parametrize("padding", [b"", b" " * 70_000], ids=["small", "big"])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_answer_longer_than_the_bound_is_refused(name: str, padding: bytes) -> None:
    for value, code in [
        ("100", None),
        ("null", None),
        ("101", "max_tokens_exceeded"),
        ("1e3", "max_tokens_exceeded"),
        ("-1", "max_tokens_exceeded"),
        ('"101"', "invalid_type"),
        ("true", "invalid_type"),
    ]:
        request = received(b'{"model":"a","%b":%b}' % (name.encode(), value.encode()) + padding)
        request.model()
        if code is None:
            request.check_max_tokens(100)
            continue
        with pytest.raises(RefusedError) as refused:
            request.check_max_tokens(100)
        assert (refused.value.refusal.status, refused.value.refusal.code, refused.value.refusal.param) == (
            400,
            code,
            name,
        )


def test_bound_in_a_nested_place_is_not_the_request_s() -> None:
    request = received(b'{"x":{"max_tokens":1000},"model":"a"}')
    request.model()
    request.check_max_tokens(1)


def test_scan_refuses_early_and_goes_on_where_it_stopped() -> None:
    request = received(b'{"a":1,')
    request.scan()
    request.append(b'"model":"chat"}')
    assert request.model() == "chat"
    with pytest.raises(RefusedError):
        received(b"[1,2").scan()
