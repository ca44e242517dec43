"""Finding top-level members, against the JSON parser of the standard library."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.body.json_fields import BodyError, FieldScanner, Member, find_plain, read_value
from provisioner.gateway.body.plain_fields import ABSENT, PlainFields

SPACE = st.text(" \t\n\r", max_size=3)
NAMES = st.one_of(
    st.sampled_from(["model", "Model", "mode", "models", 'mo"del', "messages", "\\model"]), st.text(max_size=6)
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
    st.sampled_from(['"model":"x"', '{"model":"x"}', "\\", '\\"', "model"]),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=20,
)


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """A JSON string that says `text`, any of its characters escaped, as engines' parsers accept it."""
    spelled = ""
    for character in text:
        plain = json.dumps(character, ensure_ascii=draw(st.booleans()))[1:-1]
        escape = "".join(f"\\u{ord(unit):04x}" for unit in _utf_16(character))
        spelled += escape if draw(st.integers(0, 4)) == 0 else plain
    return f'"{spelled}"'


def _utf_16(character: str) -> Sequence[str]:
    code = ord(character)
    if code < 0x10000:
        return character
    code -= 0x10000
    return chr(0xD800 | code >> 10), chr(0xDC00 | code & 0x3FF)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, str]]]:
    """The text of a JSON object, and its members as pairs of name and value text, in order."""
    members = []
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.one_of(st.just("model"), NAMES))
        value = draw(st.one_of(st.text(max_size=8), VALUES)) if name != "model" else draw(st.text(max_size=8))
        is_text = isinstance(value, str)
        text = draw(spelled(value)) if is_text else json.dumps(value, ensure_ascii=draw(st.booleans()))
        members.append((name, text))
    pieces = []
    for name, text in members:
        gaps = [draw(SPACE) for _ in range(4)]
        pieces.append(f"{gaps[0]}{draw(spelled(name))}{gaps[1]}:{gaps[2]}{text}{gaps[3]}")
    body = draw(SPACE) + "{" + (",".join(pieces) or draw(SPACE)) + "}" + draw(SPACE)
    return body.encode(), members


def scan(body: bytes, cuts: Sequence[int] = ()) -> list[bytes]:
    """The values that the scanner finds when the body arrives in pieces cut at `cuts`."""
    grown = bytearray()
    scanner = FieldScanner(grown, {"model"})
    edges = [0, *sorted({cut % (len(body) + 1) for cut in cuts}), len(body)]
    for start, end in itertools.pairwise(edges):
        grown += body[start:end]
        scanner.advance()
    return [bytes(grown[start:end]) for _, start, end in scanner.finish()]


@given(bodies(), st.lists(st.integers(0, 10_000), max_size=8))
def test_every_top_level_model_is_found_however_it_is_spelled_and_cut(
    made: tuple[bytes, list[tuple[str, str]]], cuts: list[int]
) -> None:
    body, members = made
    expected = [text.encode() for name, text in members if name == "model"]
    assert scan(body, cuts) == expected


@given(bodies())
def test_quick_proof_never_contradicts_the_scanner(made: tuple[bytes, list[tuple[str, str]]]) -> None:
    body, _ = made
    found = find_plain(body)
    if found is not None:
        span, members = found
        assert [body[slice(*span)]] == scan(body)
        told = json.loads(body)
        assert msgspec.structs.asdict(members) == {
            name: told.get(name, ABSENT if name == "stream_options" else None) for name in PlainFields.__struct_fields__
        }


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_break_the_scanner(body: bytes, cuts: list[int]) -> None:
    try:
        expected = scan(body)
    except BodyError:
        with pytest.raises(BodyError):
            scan(body, cuts)
    else:
        assert scan(body, cuts) == expected


@given(
    st.recursive(
        st.sampled_from(['"a"', "1", "true"]),
        lambda inner: st.lists(inner, max_size=3).map(lambda x: "[" + ",".join(x) + "]"),
        max_leaves=10,
    )
)
def test_model_after_any_value_is_found(value: str) -> None:
    body = f'{{"x":{value},"model":"a"}}'.encode()
    assert scan(body) == [b'"a"']
    assert scan(body, range(len(body))) == [b'"a"']


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"null", b"[]", b'"model"', b"{", b'{"model"', b'{"model":', b'{"model":"a"', b'{"model":"a"}x',
        b'{"model":"a",}', b'{"model" "a"}', b'{model:"a"}', b"{'model':'a'}", b'{"model":"a""b"}', b'{,"model":"a"}',
        b'{"model":}', b'{"x":]}', b'{"model":"a"}{"model":"b"}', b'{"a":1 "model":"a"}', b'{"model":"a\\"}',
        b'{"a":[}', b'{"' + b"n" * 5000 + b'":1}', b'{"x":' + b"[" * 600 + b"]" * 600 + b"}", b'{"\\x":1}',
    ],
)  # fmt: skip
def test_what_is_not_one_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        scan(body)


def test_deep_and_wide_values_are_skipped() -> None:
    body = b'{"x":' + b"[" * 300 + b'"]",{}' + b"]" * 300 + b',"y":[' + b"[]," * 5000 + b'[]],"model":"a"}'
    assert scan(body) == [b'"a"']
    assert scan(body, range(0, len(body), 7)) == [b'"a"']


def test_long_string_in_many_pieces_is_read_once() -> None:
    body = b'{"x":"' + b"a\\n" * 200_000 + b'","model":"a"}'
    assert scan(body, range(0, len(body), 100)) == [b'"a"']


@pytest.mark.parametrize("text", [b'"\\ud"', b'"\xff"', b'"a\nb"', b'"\\x"'])
def test_model_that_is_no_valid_string_is_refused(text: bytes) -> None:
    with pytest.raises(BodyError):
        read_value(text, Member("model", 0, len(text)))


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "[1,NaN]", '{"a":[{"b":-Infinity}]}', "undefined", "'a'"]
)
def test_value_that_is_no_json_is_refused_at_any_depth(value: str) -> None:
    body = f'{{"x":{value},"model":"a"}}'.encode()
    for cuts in ((), range(len(body))):
        with pytest.raises(BodyError):
            scan(body, cuts)
    assert find_plain(body) is None


def test_words_in_strings_are_no_values() -> None:
    assert scan(b'{"x":["NaN",{"Infinity":"-Infinity"}],"model":"a"}') == [b'"a"']


def test_names_are_found_however_they_are_spelled() -> None:
    body = bytearray(b'{"stre\\u0061m":true,"x":1,"max_tokens": 5 ,"max_tokens":6}')
    found = FieldScanner(body, {"stream", "max_tokens"}).finish()
    assert [(name, bytes(body[start:end])) for name, start, end in found] == [
        ("stream", b"true"),
        ("max_tokens", b"5"),
        ("max_tokens", b"6"),
    ]
