"""The soak, for as long as a test may take; `make soak` runs it for ten minutes."""

from __future__ import annotations

from tests.gateway.soak import soak


async def test_nothing_is_lost_or_kept_under_everything_at_once() -> None:
    found = await soak(4)
    assert found.problems() == []
    assert len({entry.partition(":")[0] for entry in found.answers}) == 9
