"""Answers in JSON are read alike in one piece and in many, small and of megabytes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.gateway.usage.answer import answer_reader, form_of
from provisioner.gateway.usage.members import MemberScanner, Path
from provisioner.gateway.usage.tally import Tokens
from provisioner.gateway.usage.told import WANTED
from tests.unit.gateway.usage.test_event_stream import cut

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["usage", "choices", "finish_reason", 'a"\\', "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = {
    "usage": st.fixed_dictionaries({}, optional={"prompt_tokens": st.integers(0, 9), "other": VALUES}) | VALUES,
    "response": st.fixed_dictionaries({}, optional={"usage": VALUES, "other": VALUES}) | VALUES,
    "choices": st.lists(
        st.fixed_dictionaries({}, optional={"message": VALUES, "finish_reason": st.text(max_size=5), "index": VALUES})
        | VALUES,
        max_size=3,
    )
    | VALUES,
    "other": VALUES,
}
CUTS = st.lists(st.integers(0, 2**12), max_size=10) | st.just(list(range(2**12)))


def read(*pieces: bytes) -> Tokens:
    """What is known at the end of an answer that came in these pieces, which passed as they are."""
    reader = answer_reader(form_of(200, {b"content-type": b"application/json"}), hides_usage=True)
    assert [reader.read(piece) for piece in pieces] == list(pieces)
    assert not reader.finish()
    assert not reader.is_between_events
    return reader.tokens


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (
            {
                "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "length"}],
                "usage": {"prompt_tokens": 2**39 + 1, "completion_tokens": 3, "total_tokens": 2**39 + 4},
            },
            Tokens(2**39 + 1, 3, "length"),
        ),
        ({"object": "response", "usage": {"input_tokens": 4, "output_tokens": 5}}, Tokens(4, 5, None)),
        ({"object": "list", "data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}, Tokens(8, 0, None)),
        ({"object": "list", "data": [], "usage": {"prompt_tokens": 8}}, Tokens(8, None, None)),
        ({"text": "hello", "usage": {"type": "duration", "seconds": 3}}, Tokens()),
        (
            {
                "choices": [
                    {"index": 1, "finish_reason": "stop"},
                    {"index": 0, "finish_reason": "tool_calls", "usage": {"prompt_tokens": 1}},
                ]
            },
            Tokens(None, None, "tool_calls"),
        ),
        ({"usage": None, "choices": None}, Tokens()),
        ([{"usage": {"prompt_tokens": 1}}], Tokens()),
        ("usage", Tokens()),
    ],
)
def test_tokens_are_those_that_are_told(answer: object, tokens: Tokens) -> None:
    """MET-06: exact from JSON; null where nothing is told."""
    assert read(json.dumps(answer).encode()) == tokens
    assert read(*cut(json.dumps(answer).encode(), range(4096))) == tokens


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"usage": {"prompt_tokens": 1}', b"\xff{}", b'{"usage":}', b"[1,", b"{]}"]
)
def test_what_is_not_json_tells_nothing(text: bytes) -> None:
    assert read(text) == Tokens()


@settings(max_examples=400, deadline=None)
@given(
    fields=st.lists(st.sampled_from(sorted(FIELDS)), max_size=5).flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(name), FIELDS[name]) for name in names))
    ),
    indent=st.sampled_from([None, 1]),
    places=CUTS,
)
def test_picked_members_are_those_that_a_parser_finds(
    fields: Sequence[tuple[str, Any]], indent: int | None, places: Sequence[int]
) -> None:
    text = json.dumps(dict(fields), indent=indent).encode()
    scanner = MemberScanner(WANTED)
    for piece in cut(text, places):
        scanner.feed(piece)
    message = dict(fields)
    expected: dict[Path, Any] = {}
    if "usage" in message:
        expected["usage",] = message["usage"]
    if isinstance(response := message.get("response"), dict) and "usage" in response:
        expected["response", "usage"] = response["usage"]
    if isinstance(choices := message.get("choices"), list) and choices and isinstance(choices[0], dict):
        for name in ("index", "finish_reason"):
            if name in choices[0]:
                expected["choices", 0, name] = choices[0][name]
    assert scanner.found == expected


@settings(max_examples=200, deadline=None)
@given(text=st.binary(max_size=60) | st.text('{}[]",:\\ua1 ', max_size=40).map(str.encode), places=CUTS)
def test_no_text_stops_the_scanner(text: bytes, places: Sequence[int]) -> None:
    scanner = MemberScanner(WANTED)
    for piece in cut(text, places):
        scanner.feed(piece)


def test_later_member_of_a_name_counts_as_it_does_for_parsers() -> None:
    usage = b'{"usage": {"prompt_tokens": 1}, "us\\u0061ge": {"prompt_tokens": 2}'
    assert read(usage + b"}") == Tokens(2)
    assert read(usage + b', "x": "' + b"x" * 70_000 + b'"}') == Tokens(2)


@pytest.mark.parametrize("usage_first", [False, True])
def test_embeddings_of_megabytes_are_read_and_never_held(usage_first: bool) -> None:
    usage = {"usage": {"prompt_tokens": 77, "total_tokens": 77}}
    data = {"data": [{"embedding": [0.0123456789] * 4096, "index": number} for number in range(160)]}
    text = json.dumps({**usage, **data} if usage_first else {**data, **usage}).encode()
    assert len(text) > 8_000_000
    reader = answer_reader(form_of(200, {b"content-type": b"application/json"}), hides_usage=False)
    pieces = [text[at : at + 65_536] for at in range(0, len(text), 65_536)]
    tracemalloc.start()
    for piece in pieces:
        reader.read(piece)
    reader.finish()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.tokens == Tokens(77, 0)
    assert most < 1_000_000


def test_long_strings_and_deep_nests_are_passed_over() -> None:
    deep = b'{"a":' + b"[" * 5000 + b'"]}"' + b"]" * 5000 + b',"usage":{"prompt_tokens":3},"s":"' + rb"\"\\" * 50_000
    assert read(*(deep[at : at + 999] for at in range(0, len(deep), 999)), b'"}') == Tokens(3)


def test_usage_that_is_no_usage_is_not_kept() -> None:
    text = b'{"usage":{"prompt_tokens":3,"x":"' + b"x" * 200_000 + b'"},"choices":[{"finish_reason":"stop"}]}'
    assert read(*(text[at : at + 1000] for at in range(0, len(text), 1000))) == Tokens(None, None, "stop")
