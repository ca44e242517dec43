"""The queue of bytes that goes to the disk when it grows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.gateway.body.memory import BodyMemory
from provisioner.gateway.body.spool import MEMORY_BYTES, Spool


@settings(max_examples=60)
@given(st.lists(st.integers(-700_000, 700_000), max_size=25))
def test_bytes_come_out_as_they_went_in_in_memory_or_on_disk(steps: list[int]) -> None:
    memory = BodyMemory(1)
    spool, written, read = Spool(memory), bytearray(), bytearray()
    for number, step in enumerate(steps):
        if step > 0:
            piece = bytes([number]) * step
            spool.append(piece)
            written += piece
        else:
            piece = spool.take(1 - step)
            assert bool(piece) == (len(read) < len(written))
            read += piece
        assert spool.length == len(written) - len(read)
        assert memory.held_bytes <= min(MEMORY_BYTES, spool.length)
    while piece := spool.take(100_000):
        read += piece
    assert read == written
    assert memory.held_bytes == 0


def test_file_has_no_name_and_ends_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[IO[bytes]] = []
    real = tempfile.TemporaryFile

    def noted(*, buffering: int) -> IO[bytes]:
        made.append(real(buffering=buffering))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    spool = Spool(BodyMemory(1))
    spool.append(b"x" * (MEMORY_BYTES + 1))
    assert os.fstat(made[0].fileno()).st_nlink == 0
    assert list(tmp_path.iterdir()) == []
    while spool.take(MEMORY_BYTES):
        pass
    assert made[0].closed
    spool.append(b"again")
    assert spool.take(10) == b"again"
    assert len(made) == 1


def test_short_writes_of_the_disk_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:1000], at))
    spool = Spool(BodyMemory(1))
    piece = os.urandom(MEMORY_BYTES + 5)
    spool.append(piece)
    assert b"".join(iter(lambda: spool.take(50_000), b"")) == piece
