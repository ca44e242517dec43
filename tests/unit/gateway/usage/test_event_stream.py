"""Events are read however they are cut, and what the caller gets is the same to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provisioner.gateway.usage.answer import AnswerReader, answer_reader, form_of
from provisioner.gateway.usage.tally import NO_TOKENS, Tokens

HEADERS = {b"content-type": b"text/event-stream; charset=utf-8"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 2**39 - 7, "total_tokens": 2**39 + 4}


def event(message: object, end: bytes = b"\n") -> bytes:
    """One event."""
    return b"data: " + json.dumps(message).encode() + end + end


def delta(**fields: object) -> dict[str, Any]:
    """A chunk of a chat."""
    return {"id": "c", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def last(reason: str = "stop") -> dict[str, Any]:
    """The chunk that ends the first choice."""
    return {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


ROLE, HELLO = delta(role="assistant", content=""), delta(content='Say "usage": {} and \\"finish_reason\\"\n\n')
EXTRA = {"id": "c", "choices": [], "usage": USAGE}
DONE = b"data: [DONE]\n\n"
CHAT = event(ROLE) + event(HELLO) + event(last())


def stream(*, hides_usage: bool = False) -> AnswerReader:
    """A reader of an answer in events."""
    return answer_reader(form_of(200, HEADERS), hides_usage=hides_usage)


def cut(text: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """The text in pieces."""
    begin = 0
    for end in sorted({place % (len(text) + 1) for place in places} | {len(text)}):
        yield text[begin:end]
        begin = end


def passed(reader: AnswerReader, pieces: Iterable[bytes]) -> bytes:
    """What the caller gets."""
    return b"".join((*map(reader.read, pieces), reader.finish()))


def test_tokens_of_the_last_chunk_are_exact() -> None:
    """MET-06: a stream with a usage chunk is told by its tokens."""
    reader = stream()
    assert passed(reader, [CHAT + event(EXTRA) + DONE]) == CHAT + event(EXTRA) + DONE
    assert reader.tokens == Tokens(11, 2**39 - 7, "stop")


def test_what_is_not_told_is_none_and_not_0() -> None:
    """MET-06: without a usage chunk tokens are unknown."""
    reader = stream()
    passed(reader, [CHAT + DONE])
    assert reader.tokens == Tokens(None, None, "stop")


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": -1, "completion_tokens": True},
        {"prompt_tokens": 1.0, "completion_tokens": "7"},
        {"prompt_tokens": 10**13},
        [1],
    ],
)
def test_what_is_no_number_of_tokens_is_none(usage: object) -> None:
    reader = stream()
    passed(reader, [CHAT + event({"choices": [], "usage": usage}) + DONE])
    assert reader.tokens == Tokens(None, None, "stop")


def test_running_totals_of_every_chunk_end_with_the_last() -> None:
    reader = stream()
    for told in range(1, 5):
        passed(reader, [event({**HELLO, "usage": {"prompt_tokens": 3, "completion_tokens": told}})])
    assert reader.tokens == Tokens(3, 4, None)


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_responses_are_told_by_their_last_event(kind: str) -> None:
    reader = stream()
    begun = {"type": "response.created", "response": {"id": "r", "usage": None}}
    piece = {"type": "response.output_text.delta", "delta": "Hi"}
    told = {"type": kind, "response": {"output": [], "usage": {"input_tokens": 5, "output_tokens": 9}}}
    text = b"".join(b"event: %b\n%b" % (one["type"].encode(), event(one)) for one in (begun, piece, told))  # type: ignore[attr-defined]
    assert passed(reader, [text]) == text
    assert reader.tokens == Tokens(5, 9, None)


PIECES = st.sampled_from(
    [
        b": keep-alive\n\n",
        b"\n",
        b"\r\n",
        b"event: ping\ndata:\n\n",
        b"retry: 10\r\n\r\n",
        event(ROLE),
        event(HELLO),
        event(HELLO, b"\r\n"),
        event({**HELLO, "usage": None}),
        event(last("length"), b"\r\n"),
        event({"choices": [], "prompt_filter_results": []}),
        b'data: {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}\n\n',
        b'data: {"choices": [\ndata: {"index": 0, "finish_reason"\ndata: : "length"}]}\n\n',
        b'data: not JSON, but it has "usage" in it\n\n',
        event({"choices": [{"index": 0, "delta": {"content": "x" * 70_000}}]}),
        b"data: \xff\xfe\n\n",
        DONE,
    ]
)
EXTRAS = st.sampled_from(
    [
        event(EXTRA),
        event(EXTRA, b"\r\n"),
        b'id: 7\ndata: {"choices":[ ],\ndata:"usage": {"prompt_tokens":11,"completion_tokens":%d}}\n\n' % (2**39 - 7),
    ]
)
CUTS = st.lists(st.integers(0, 2**17), max_size=12) | st.just(list(range(400)))


@settings(max_examples=300, deadline=None)
@given(before=st.lists(PIECES, max_size=6), extra=EXTRAS, after=st.lists(PIECES, max_size=2), places=CUTS)
@example(before=[], extra=event(EXTRA), after=[], places=list(range(400)))
def test_extra_chunk_alone_is_hidden_however_the_answer_is_cut(
    before: Sequence[bytes], extra: bytes, after: Sequence[bytes], places: Sequence[int]
) -> None:
    text = b"".join((*before, extra, *after))
    reader = stream(hides_usage=True)
    assert passed(reader, cut(text, places)) == b"".join((*before, *after))
    assert (reader.tokens.prompt, reader.tokens.completion) == (11, 2**39 - 7)


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(PIECES | EXTRAS, max_size=6), places=CUTS)
@example(parts=[event({"choices": [{"index": 0, "delta": {"content": "x" * 70_000}}]})], places=[65_537])
def test_whatever_the_caller_asked_for_itself_passes_at_once_and_is_read_alike(
    parts: Sequence[bytes], places: Sequence[int]
) -> None:
    text = b"".join(parts)
    whole, cut_up = stream(), stream()
    for piece in cut(text, places):
        assert cut_up.read(piece) == piece
    assert not cut_up.finish()
    assert passed(whole, [text]) == text
    assert cut_up.tokens == whole.tokens
    assert cut_up.has_content == whole.has_content


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(PIECES.filter(lambda one: one.strip() != b"") | EXTRAS, max_size=5), places=CUTS)
@pytest.mark.parametrize("hides_usage", [False, True])
def test_it_is_between_events_where_what_the_caller_has_got_ends_one(
    parts: Sequence[bytes], places: Sequence[int], hides_usage: bool
) -> None:
    ends, at = {0}, 0
    for part in parts:
        if not (hides_usage and b'"prompt_tokens"' in part):
            at += len(part)
            ends.add(at)
    reader, got = stream(hides_usage=hides_usage), 0
    assert reader.is_between_events
    for piece in cut(b"".join(parts), places):
        got += len(reader.read(piece))
        assert reader.is_between_events == (got in ends)


@settings(max_examples=60, deadline=None)
@given(end=st.sampled_from([b"\n", b"\r\n", b"\r"]), mark=st.sampled_from([b"", b"\xef\xbb\xbf"]), places=CUTS)
@example(end=b"\r", mark=b"\xef\xbb\xbf", places=list(range(400)))
def test_lines_may_end_with_cr_alone_and_the_answer_begin_with_a_mark(
    end: bytes, mark: bytes, places: Sequence[int]
) -> None:
    """MET-06: as the standard of such streams has it."""
    before, after = mark + event(HELLO, end) + b": ok" + end + end, event(last(), end) + b"data: [DONE]" + end + end
    reader = stream(hides_usage=True)
    assert passed(reader, cut(before + event(EXTRA, end) + after, places)) == before + after
    assert reader.tokens == Tokens(11, 2**39 - 7, "stop")
    assert reader.has_content
    long = {"type": "response.completed", "response": {"t": "x" * 70_000, "usage": {"input_tokens": 5}}}
    reader = stream()
    assert passed(reader, cut(mark + event(long, end), places)) == mark + event(long, end)
    assert reader.tokens.prompt == 5


def test_unfinished_last_event_is_told_by_the_end_of_the_answer() -> None:
    text = CHAT + event(EXTRA)[:-2]
    reader = stream(hides_usage=True)
    assert passed(reader, [text]) == CHAT
    assert reader.tokens == Tokens(11, 2**39 - 7, "stop")
    assert passed(stream(hides_usage=True), [CHAT[:-30]]) == CHAT[:-30]


@pytest.mark.parametrize("size", [1, 7, 65_536, 10**7])
def test_event_of_megabytes_is_read_and_never_held(size: int) -> None:
    told = {
        "type": "response.completed",
        "response": {"output": [{"text": 'x"\\' * 300_000}], "usage": {"input_tokens": 5, "output_tokens": 9}},
    }
    text = b": ok\n\nevent: response.completed\n" + event(told, b"\r\n") + DONE
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size > 7 else cut(text, range(0, 9000, size))
    reader = stream(hides_usage=True)
    assert passed(reader, pieces) == text
    assert reader.tokens == Tokens(5, 9, None)
    assert reader.is_between_events


@pytest.mark.parametrize(
    ("message", "is_content"),
    [
        (ROLE, False),
        (last(), False),
        (EXTRA, False),
        ({"type": "response.created", "response": {"delta": "x"}}, False),
        (HELLO, True),
        (delta(reasoning_content="hm"), True),
        (delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]), True),
        ({"choices": [{"index": 0, "text": "Hi"}]}, True),
        ({"type": "response.output_text.delta", "delta": "Hi"}, True),
    ],
)
def test_first_token_is_the_first_piece_of_the_answer_itself(message: object, is_content: bool) -> None:
    reader = stream()
    reader.read(event(ROLE) + event(message))
    assert reader.has_content == is_content


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {**HEADERS, b"content-encoding": b"gzip"}),
        (429, HEADERS),
        (200, {b"content-type": b"audio/wav"}),
        (200, {}),
    ],
)
def test_what_is_compressed_or_no_success_passes_unread(status: int, headers: dict[bytes, bytes]) -> None:
    reader = answer_reader(form_of(status, headers), hides_usage=True)
    assert passed(reader, [CHAT, event(EXTRA), DONE]) == CHAT + event(EXTRA) + DONE
    assert reader.tokens is NO_TOKENS
    assert not reader.is_between_events
