"""Capabilities that a rule of the linter shows, by the samples of the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.worlds import lint

SAMPLES = Path(__file__).parents[2] / "lint" / "rules"


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("driver-settings-in-engine-app", id="GPU-07"),
        pytest.param("application-with-routes-only", id="ARG-06"),
        pytest.param("image-tag-latest", id="RUN-12"),
    ],
)
def test_the_rule_of_a_capability_finds_the_bad_sample_and_not_the_good_one(rule: str) -> None:
    """Ledger: GPU-07, ARG-06, RUN-12."""
    assert rule in {finding.rule for finding in lint(SAMPLES / rule / "bad")}
    assert rule not in {finding.rule for finding in lint(SAMPLES / rule / "good")}
