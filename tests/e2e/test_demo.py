"""`tenantry demo --once`, the whole of it, as `make demo ARGS=--once` runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.conftest import require_weights, run_command

STAGES = (
    "project",
    "delivery",
    "placement",
    "tenant_cluster",
    "capacity",
    "argo_sync",
    "route",
    "loading",
    "published",
)


@pytest.mark.timeout(300)
def test_demo_ends_with_nothing_left(tmp_path: Path) -> None:
    """From nothing to a streamed answer and back to nothing.

    Ledger: LIF-04, SEC-05, TEN-05, RUN-09
    """
    require_weights()
    state = tmp_path / "state"
    done = run_command("demo", "--once", "--state", str(state), environ=os.environ, timeout=280)
    assert done.returncode == 0, done.stderr
    reached = [line.split()[0] for line in done.stderr.splitlines() if line[:1].islower() and " done " in line]
    assert [stage for stage in reached if stage in STAGES] == sorted(
        (stage for stage in reached if stage in STAGES), key=reached.index
    )
    assert set(STAGES) <= set(reached)
    assert done.stdout.strip()
    assert "without a key: 401" in done.stderr
    assert "nothing is left" in done.stderr
    assert "every process has ended" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
