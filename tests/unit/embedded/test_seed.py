"""The delivery repository of a laptop, also after its git processes were killed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from provisioner.embedded.seed import ensure_repository


async def test_lock_that_a_killed_git_left_behind_is_removed(tmp_path: Path) -> None:
    repository = tmp_path / "delivery.git"
    await ensure_repository(repository)
    lock = repository / "refs" / "heads" / "ep-a.lock"
    lock.touch()
    await ensure_repository(repository)
    assert not lock.exists()


async def test_half_made_repository_is_finished(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    await ensure_repository(tmp_path)
    shown = subprocess.run(["git", "-C", str(tmp_path), "rev-parse", "--is-bare-repository"], capture_output=True)
    assert shown.stdout == b"true\n", shown.stderr
