"""The spool: complete batches, oldest first, within their bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.gateway.usage.batch import BATCH_RECORDS, Batch
from provisioner.gateway.usage.spool import Spool, SpoolFullError

LINE = b'{"a":1}\n'


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A spool of a megabyte."""
    return Spool(tmp_path / "usage", limit_bytes=10**6)


def test_batch_keeps_its_id_and_takes_no_more_once_it_was_given_out(spool: Spool) -> None:
    spool.append([LINE])
    spool.append([LINE, LINE])
    first = spool.oldest()
    assert first is not None
    assert first.records == 3
    spool.append([LINE])
    assert spool.oldest() == first
    spool.remove(first)
    second = spool.oldest()
    assert second is not None
    assert second.id != first.id
    assert second.records == 1
    spool.remove(second)
    assert spool.oldest() is None
    assert spool.size_bytes() == 0


def test_no_batch_is_larger_than_the_control_plane_takes(spool: Spool) -> None:
    for _ in range(5):
        spool.append([LINE] * 400)
    long = b'{"a":"' + b"x" * 500_000 + b'"}\n'
    spool.append([long])
    sizes = []
    while batch := spool.oldest():
        sizes.append(batch.records)
        assert len(batch.text) <= 768 * 1024
        spool.remove(batch)
    assert sum(sizes) == 2001
    assert max(sizes) <= BATCH_RECORDS


def test_batches_are_filled_before_others_are_begun(spool: Spool) -> None:
    """As many batches as there must be: each is a transaction of the control plane."""
    for _ in range(3):
        spool.append([LINE] * (BATCH_RECORDS - 100))
    sizes = []
    while batch := spool.oldest():
        sizes.append(batch.records)
        spool.remove(batch)
    assert sizes == [BATCH_RECORDS, BATCH_RECORDS, BATCH_RECORDS - 300]


def test_batches_come_in_the_order_in_which_they_were_made(spool: Spool, tmp_path: Path) -> None:
    names: list[str] = []
    for number in range(3):
        spool.append([b'{"number":%d}\n' % number])
        spool.seal()
        [new] = {path.name for path in (tmp_path / "usage").iterdir()} - set(names)
        names.append(new)
        os.utime(tmp_path / "usage" / new, (number + 1, number + 1))
    found: list[bytes] = []
    while batch := spool.oldest():
        found.append(batch.text)
        spool.remove(batch)
    assert found == [b'{"number":%d}' % number for number in range(3)]


def test_beyond_its_bound_nothing_is_added_until_there_is_room(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "usage", limit_bytes=20)
    lines = [LINE, LINE]
    spool.append(lines)
    assert not lines
    lines = [LINE]
    with pytest.raises(SpoolFullError):
        spool.append(lines)
    assert lines == [LINE]
    batch = spool.oldest()
    assert batch is not None
    assert batch.records == 2
    spool.remove(batch)
    spool.append([LINE])


def test_batch_that_has_its_id_keeps_it_and_nothing_else_comes_under_it(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the disk takes a part of it only: a batch that may have been counted takes nothing new."""
    spool.append([LINE])
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:3]))
    with pytest.raises(OSError, match="a part only"):
        spool.keep(Batch("mine", LINE + LINE[:-1]))
    monkeypatch.undo()
    spool.append([LINE])
    spool.seal()
    names = {path.stem for path in (tmp_path / "usage").iterdir() if path.stat().st_size}
    assert len(names) == 2
    assert "mine" not in names
    spool.keep(Batch("mine", LINE + LINE[:-1]))
    found: list[Batch] = []
    while batch := spool.oldest():
        found.append(batch)
        spool.remove(batch)
    assert found[2:] == [Batch("mine", LINE + LINE[:-1])]
    assert [batch.records for batch in found] == [1, 1, 2]


def test_line_that_a_lost_machine_wrote_in_part_is_left_out(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "usage").mkdir()
    (tmp_path / "usage" / "torn.open").write_bytes(LINE + b'{"a":')
    batch = spool.oldest()
    assert batch is not None
    assert batch.id == "torn"
    assert batch.text == LINE[:-1]
    (tmp_path / "usage" / "torn.batch").write_bytes(b"")
    assert spool.oldest() is None
    assert not list((tmp_path / "usage").iterdir())


def test_spools_of_two_processes_in_one_folder_do_not_take_each_other_s_open_batch(tmp_path: Path) -> None:
    one, other = (Spool(tmp_path, limit_bytes=1000) for _ in range(2))
    one.append([LINE])
    assert other.oldest() is None
    other.append([LINE, LINE])
    mine = other.oldest()
    assert mine is not None
    assert mine.records == 2
    one.append([LINE])
    one.seal()
    other.remove(mine)
    theirs = other.oldest()
    assert theirs is not None
    assert theirs.records == 2


PROCESS = """
import sys, time
from pathlib import Path
from provisioner.gateway.usage.spool import Spool
spool = Spool(Path(sys.argv[1]), limit_bytes=10**6)
spool.append([b'{"number":1}\\n', b'{"number":2}\\n'])
print("written", flush=True)
time.sleep(60)
"""


def test_killed_process_leaves_its_batch_to_the_next_and_a_live_one_keeps_it(tmp_path: Path) -> None:
    other = Spool(tmp_path / "spool", limit_bytes=10**6)
    with subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path / "spool")], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"written\n"
            assert other.oldest() is None
        finally:
            holder.kill()
    batch = other.oldest()
    assert batch is not None
    assert batch.text == b'{"number":1}\n{"number":2}'
    assert Spool(tmp_path / "spool", limit_bytes=10**6).oldest() == batch
    other.remove(batch)
    assert other.oldest() is None


def test_what_a_process_left_that_ended_before_it_had_a_batch_is_removed(spool: Spool, tmp_path: Path) -> None:
    spool.append([LINE])
    left, begun = tmp_path / "usage" / "left.new", tmp_path / "usage" / "begun.new"
    left.touch()
    os.utime(left, (1, 1))
    begun.touch()
    assert spool.oldest() is not None
    assert not left.exists()
    assert begun.exists()
