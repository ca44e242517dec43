"""Records are parted into batches that the control plane takes."""

from __future__ import annotations

import pytest

from provisioner.gateway.usage.batch import BATCH_BYTES, BATCH_RECORDS, fitting


@pytest.mark.parametrize("size", [10, 2000, BATCH_BYTES + 1])
@pytest.mark.parametrize("number", [1, 2, BATCH_RECORDS, BATCH_RECORDS + 1])
def test_as_many_fit_as_a_batch_has_room_for(number: int, size: int) -> None:
    lines = [b"x" * size] * number
    part = fitting(lines)
    assert len(part) == 1 or sum(map(len, part)) <= BATCH_BYTES
    assert 1 <= len(part) <= BATCH_RECORDS
    assert len(part) >= min(number, BATCH_RECORDS, BATCH_BYTES // size // 2)


def test_none_fit_where_there_is_no_room_for_a_record() -> None:
    assert fitting([b"x"], records=0) == []
