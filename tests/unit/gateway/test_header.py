"""Header fields and targets, for any bytes that a parser may hand on."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.caller.header import (
    Naming,
    caller_secret,
    read_request_head,
    response_lines,
    withheld_from_replica,
)
from provisioner.gateway.caller.request import Service, find_service, plain_target
from provisioner.gateway.refusal import RefusedError

TOKEN = st.sampled_from(
    [
        b"x-a",
        b"x-b",
        b"accept",
        b"cookie",
        b"te",
        b"authorization",
        b"connection",
        b"keep-alive",
        b"x-mine",
        b"priority",
    ]
)
VALUE = st.one_of(
    st.sampled_from([b"", b"close", b"keep-alive", b"x-a", b" X-A , close", b"x-b,te", b"authorization"]),
    st.binary(max_size=8).filter(lambda value: not set(value) & set(b"\r\n\0")),
)
NEVER = {b"authorization", b"x-api-key", b"cookie", b"te", b"connection", b"keep-alive", b"host", b"content-length"}
NEVER |= {b"x-mine", b"priority"}
STAYS = withheld_from_replica({b"x-mine"})


@given(st.lists(st.tuples(TOKEN, VALUE), max_size=8))
def test_what_goes_on_is_what_came_less_what_is_withheld(fields: list[tuple[bytes, bytes]]) -> None:
    try:
        lines, _ = read_request_head([(b"host", b"a"), *fields], version="1.1", stays=STAYS)
    except RefusedError as error:
        assert error.refusal.status == 400
        return
    named = {token.strip().lower() for name, value in fields if name == b"connection" for token in value.split(b",")}
    kept = [(name, value) for name, value in fields if name not in NEVER and name not in named]
    assert b"".join(lines) == b"".join(b"%b: %b\r\n" % field for field in kept)


@given(st.lists(st.tuples(TOKEN, VALUE), max_size=8))
def test_answers_lose_only_what_belongs_to_one_connection(fields: list[tuple[bytes, bytes]]) -> None:
    lines, _ = response_lines(fields)
    named = {token.strip().lower() for name, value in fields if name == b"connection" for token in value.split(b",")}
    dropped = named | {b"connection", b"keep-alive", b"te"}
    assert b"".join(lines) == b"".join(b"%b: %b\r\n" % (n, v) for n, v in fields if n not in dropped)


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "secret"),
    [
        (None, None, None),
        (b"Bearer a", None, b"a"),
        (b"BEARER  a ", None, b"a"),
        (b"Bearer", None, b""),
        (b"Basic a", None, None),
        (b"Basic a", b"b", None),
        (None, b"b", b"b"),
    ],
)
def test_secret_is_read_from_one_place(
    authorization: bytes | None, x_api_key: bytes | None, secret: bytes | None
) -> None:
    assert caller_secret(authorization, x_api_key) == secret


@given(st.binary(max_size=140))
def test_request_id_is_kept_only_when_it_is_short_and_visible(offered: bytes) -> None:
    request_id, _ = Naming(Random(1)).name({b"x-request-id": offered})
    is_good = 1 <= len(offered) <= 128 and all(0x21 <= byte <= 0x7E for byte in offered)
    assert (request_id == offered) is is_good or request_id == offered
    assert is_good or request_id.startswith(b"req_")


@pytest.mark.parametrize(
    ("version", "rest", "is_kept"),
    [(b"00", b"", True), (b"01", b"", True), (b"cc", b"-more", True), (b"00", b"-more", False), (b"ff", b"", False)],
)
def test_trace_of_a_later_version_goes_on_as_one_of_this(version: bytes, rest: bytes, *, is_kept: bool) -> None:
    """W3C Trace Context, 4.3."""
    fields = b"-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    _, lines = Naming(Random(1)).name({b"traceparent": version + fields + rest, b"tracestate": b"x=1"})
    goes_on = b"traceparent: 00" + fields + b"\r\ntracestate: x=1\r\n"
    assert (b"".join(lines) == goes_on) is is_kept


@given(
    st.lists(
        st.sampled_from([b"/", b"v1", b"..", b".", b"%2e", b"%2F", b"%5c", b"\\", b"%00", b"metrics", b"%25"]),
        max_size=8,
    )
)
def test_no_target_reaches_what_is_not_below_v1(pieces: list[bytes]) -> None:
    path = b"/v1/" + b"".join(pieces)
    try:
        find_service(b"POST", path)
    except RefusedError:
        return
    assert b"%" not in path.replace(b"%2F", b"").replace(b"%2e", b"")
    assert not {b".", b".."} & set(path.replace(b"%2F", b"/").replace(b"%2e", b".").split(b"/"))


@pytest.mark.parametrize(
    ("method", "path", "service"),
    [
        (b"POST", b"/v1/chat/completions", Service.REPLICA),
        (b"POST", b"/v1/chat/completions/", Service.REPLICA),
        (b"GET", b"/v1/models", Service.MODELS),
        (b"HEAD", b"/v1/models/chat", Service.MODELS),
        (b"POST", b"/v1/modelsx", Service.REPLICA),
        (b"OPTIONS", b"/v1/models", Service.OPTIONS),
        (b"OPTIONS", b"*", Service.OPTIONS),
        (b"GET", b"/v1/mod%65ls", Service.MODELS),
        (b"GET", b"/v1/models/%C3%B6%20/..", Service.MODELS),
    ],
)
def test_path_and_method_say_who_answers(method: bytes, path: bytes, service: Service) -> None:
    assert find_service(method, path) is service


@given(st.binary(max_size=60))
def test_any_absolute_target_is_a_path_or_refused(target: bytes) -> None:
    for text in (target, b"http://a" + target):
        try:
            assert find_service(b"POST", plain_target(text)[0]) is Service.REPLICA
        except RefusedError as error:
            assert error.refusal.status in (400, 404, 405)
