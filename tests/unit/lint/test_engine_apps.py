"""What an engine's own application must leave to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.worlds import lint

SAMPLES = Path(__file__).parents[2] / "lint" / "rules" / "driver-settings-in-engine-app"


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("bad*")), ids=lambda path: path.name)
def test_driver_and_partitions_in_an_engines_application_are_reported(sample: Path) -> None:
    """Ledger: GPU-07"""
    assert "driver-settings-in-engine-app" in {finding.rule for finding in lint(sample)}


def test_driver_in_an_application_of_its_own_is_fine() -> None:
    """Ledger: GPU-07"""
    assert "driver-settings-in-engine-app" not in {finding.rule for finding in lint(SAMPLES / "good")}
