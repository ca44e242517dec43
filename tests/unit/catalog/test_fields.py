"""What is wrong with a value is told in full, and what is wrong without end as far as anybody reads it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from provisioner.catalog.fields import MOST_FINDINGS, validate_fields


class Pair(BaseModel):
    """Something with a list in it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    names: Annotated[tuple[str, ...], Field(min_length=2)]


def reasons(value: object) -> list[str]:
    found = validate_fields(Pair, value)
    return [finding.reason for finding in found] if isinstance(found, tuple) else []


def test_a_list_that_is_short_because_of_a_wrong_item_is_told_for_the_item_alone() -> None:
    assert reasons({"names": ["a", "b"]}) == []
    assert reasons({"names": ["a"]}) == ["InvalidValue"]
    assert reasons({"names": ["a", 1]}) == ["WrongType"]
    assert reasons({"names": []}) == ["InvalidValue"]


def test_findings_without_end_are_told_up_to_a_hundred_and_counted() -> None:
    found = validate_fields(Pair, {f"field{number}": 0 for number in range(20_000)})
    assert isinstance(found, tuple)
    *told, last = found
    assert [finding.reason for finding in told] == ["MissingField"] + ["UnknownField"] * (MOST_FINDINGS - 1)
    assert (last.reason, last.message) == ("MoreFindings", "reading value: wrong in as many more places: 19901")
