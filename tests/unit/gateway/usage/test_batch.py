"""Records are parted into batches that the control plane takes, none lost, in their order."""

from __future__ import annotations

import pytest

from provisioner.gateway.usage.batch import BATCH_BYTES, BATCH_RECORDS, portions


@pytest.mark.parametrize("size", [10, 2000, 500_000])
@pytest.mark.parametrize("number", [0, 1, 999, 1000, 1001, 2000, 4096])
def test_portions_are_whole_and_within_bounds(number: int, size: int) -> None:
    lines = [b"%d" % one + b"x" * size for one in range(number if size < 10_000 else number // 100)]
    parts = portions(lines)
    assert [line for part in parts for line in part] == lines
    for part in parts:
        assert 0 < len(part) <= BATCH_RECORDS
        assert sum(map(len, part)) <= BATCH_BYTES
    whole = max(len(lines) / BATCH_RECORDS, sum(map(len, lines)) / BATCH_BYTES)
    assert len(parts) <= 2 * whole + 1


def test_line_beyond_every_bound_is_a_portion_of_its_own() -> None:
    long = b"x" * (BATCH_BYTES + 1)
    assert portions([b"a", long, b"b"]) == [[b"a"], [long], [b"b"]]
