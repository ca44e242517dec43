"""What a local router is told of prompts: alike for as long as the prompts are."""

from __future__ import annotations

import json
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from provisioner.gateway.replica.router_prompt import prompt_pieces


def body(text: str, **more: object) -> bytes:
    """A request with one message, as a router sends it on."""
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **more}).encode()


def shared(one: list[int], other: list[int]) -> int:
    """How many pieces two prompts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(st.text("ab ", min_size=200), st.text("ab"), st.text("ab"))
def test_prompts_share_the_pieces_of_their_common_beginning(beginning: str, one: str, other: str) -> None:
    pieces = prompt_pieces(body(beginning + one)), prompt_pieces(body(beginning + other))
    assert shared(*pieces) >= len(beginning) // 64
    assert all(0 <= piece < 2**31 for piece in pieces[0])


def test_prompts_that_begin_differently_share_nothing() -> None:
    assert shared(prompt_pieces(body("bread " * 80)), prompt_pieces(body("glass " * 80))) == 0
    adapted = json.loads(body("bread " * 80)) | {"model": "another"}
    assert shared(prompt_pieces(body("bread " * 80)), prompt_pieces(json.dumps(adapted).encode())) == 0


def test_only_what_makes_the_prompt_counts_and_tools_come_first() -> None:
    assert prompt_pieces(body("hello", temperature=0.5, stream=True)) == prompt_pieces(body("hello"))
    tools = [{"type": "function", "function": {"name": "look_up", "description": "finds " * 40}}]
    assert shared(prompt_pieces(body("hello", tools=tools)), prompt_pieces(body("a question", tools=tools))) >= 4


def test_body_that_was_cut_off_counts_from_its_beginning() -> None:
    whole = body("bread " * 800)
    assert shared(prompt_pieces(whole[:2000]), prompt_pieces(whole[:3000])) == 2000 // 64
    assert prompt_pieces(b"") == []
