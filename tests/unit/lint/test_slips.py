"""Which names are slips of the finger, and which belong to one family."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from provisioner.domain.finding import nearest_name
from provisioner.lint.joins.slips import Names, distance, is_slip

NAMES = st.from_regex(r"[ab]{1,6}(-[ab]{1,6}){0,2}", fullmatch=True)
WORDS = st.text(alphabet="abcd", max_size=8)


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("huging-face", "hugging-face"),
        ("chat-model", "chat-models"),
        ("hf-token", "hftoken"),
        ("kube-sytem", "kube-system"),
        ("Router", "router"),
        ("routre", "router"),
    ],
)
def test_one_long_part_that_differs_by_a_letter_is_a_slip(written: str, known: str) -> None:
    assert is_slip(written, known)


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("tenant-a", "tenant-b"),
        ("chat-14b", "chat-8b"),
        ("gpu1", "gpu2"),
        ("inference-a100", "inference-h100"),
        ("dev", "de"),
        ("router", "router"),
        ("acme-dev", "acme-prod"),
        ("chat", "chat-canary"),
    ],
)
def test_names_of_one_family_are_no_slips(written: str, known: str) -> None:
    assert not is_slip(written, known)


@given(WORDS, WORDS)
def test_distance_is_symmetric_and_zero_only_for_equal_words(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
    assert distance(one, other) <= max(len(one), len(other))


@given(st.lists(NAMES, max_size=6), NAMES)
def test_names_find_a_slip_where_trying_each_does(names: list[str], written: str) -> None:
    assume(written not in names)
    found = Names(names).meant_by(written)
    assert (found is not None) == any(is_slip(written, name) for name in names)
    assert found is None or is_slip(written, found)


def test_the_name_that_was_meant_is_found_among_very_many() -> None:
    names = [f"engine-{number}" for number in range(100_000)] + ["chat-large"]
    assert nearest_name("chat-lareg", names) == "chat-large"
    assert nearest_name("router", names) is None
