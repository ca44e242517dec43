"""The length of an answer and the time for it follow from one rate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.decode_rate import MARGIN_SECONDS, DecodeRate
from provisioner.gateway.config import Queueing


def test_two_thousand_tokens_at_the_usual_rate_take_588_seconds_and_the_margin() -> None:
    """Ledger: ADM-17."""
    assert Queueing().decode_tokens_per_second == DecodeRate().tokens_per_second == 3.4
    assert math.floor(DecodeRate().seconds_for(2000) - MARGIN_SECONDS) == 588


def test_change_of_the_rate_moves_both_values() -> None:
    """Ledger: ADM-17."""
    slow, quick = DecodeRate(3.4), DecodeRate(6.8)
    assert quick.seconds_for(2000) - MARGIN_SECONDS == pytest.approx((slow.seconds_for(2000) - MARGIN_SECONDS) / 2)
    assert (slow.tokens_within(1200), quick.tokens_within(1200)) == (3876, 7752)


@given(st.floats(0.1, 10_000), st.integers(1, 1_000_000))
def test_there_is_time_for_every_answer_that_is_let_through(rate: float, seconds: int) -> None:
    found = DecodeRate(rate)
    tokens = found.tokens_within(seconds)
    assert tokens == 1 or found.seconds_for(tokens) <= seconds + 1e-6
    assert found.seconds_for(tokens + 1) > seconds - 1e-6
