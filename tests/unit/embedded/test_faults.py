"""Faults and delays that are rehearsed."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from provisioner.embedded.faults import STAGES, Failure, Fault, Faults

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _gate(faults: Faults, *, after_seconds: float) -> Failure | float | None:
    return faults.gate("capacity", since=_BEGIN, now=_BEGIN + timedelta(seconds=after_seconds))


def test_stage_without_a_fault_ends_after_its_ordinary_time() -> None:
    faults = Faults(pace={"capacity": 0.3})
    assert _gate(faults, after_seconds=0.1) == pytest.approx(0.2)
    assert _gate(faults, after_seconds=0.3) is None


def test_delay_is_added_and_asked_for_again_soon_in_case_it_is_taken_away() -> None:
    faults = Faults(pace={})
    faults.put("capacity", Fault(delay_seconds=180))
    assert _gate(faults, after_seconds=100) == 0.5
    assert _gate(faults, after_seconds=180) is None
    faults.put("capacity", None)
    assert _gate(faults, after_seconds=0) is None


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(back=True)])
def test_hanging_stage_never_ends(fault: Fault) -> None:
    faults = Faults(pace={})
    faults.put("capacity", fault)
    assert _gate(faults, after_seconds=86_400) == 0.5


def test_failing_stage_fails_after_its_time() -> None:
    faults = Faults(pace={"capacity": 1.0})
    faults.put("capacity", Fault(fail=Failure(reason="No", message="no")))
    assert isinstance(_gate(faults, after_seconds=0.5), float)
    assert _gate(faults, after_seconds=1) == Failure(reason="No", message="no")


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    faults = Faults(path)
    assert all(faults.at(stage) == Fault() for stage in STAGES)
    path.write_text('capacity: {delaySeconds: 3}\nargo_sync: {fail: {reason: Refused, message: "said no"}}\n')
    assert faults.at("capacity") == Fault(delay_seconds=3)
    assert faults.at("argo_sync").fail == Failure(reason="Refused", message="said no")
    path.write_text("capacity: {hang: true}\n")
    assert faults.at("capacity") == Fault(hang=True)
    assert faults.at("argo_sync") == Fault()
    path.unlink()
    assert faults.at("capacity") == Fault()


@pytest.mark.parametrize(
    "text", ["capacity: [", "weather: {hang: true}", "capacity: {hangs: true}", "capacity: {delaySeconds: -1}", "- a"]
)
def test_bad_file_is_told_of_and_the_former_faults_stay(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("capacity: {hang: true}\n")
    faults = Faults(path)
    assert faults.at("capacity").hang
    path.write_text(text)
    os.utime(path, ns=(1, 1))
    with caplog.at_level(logging.WARNING):
        assert faults.at("capacity").hang
        assert faults.at("capacity").hang
    assert len([record for record in caplog.records if "faults.yaml" in record.message]) == 1


def test_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("capacity: {hang: true}\n" + "#" * 70_000)
    assert not Faults(path).at("capacity").hang


def test_what_a_test_puts_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("capacity: {hang: true}\n")
    faults = Faults(path)
    faults.put("capacity", Fault(delay_seconds=1))
    assert faults.at("capacity") == Fault(delay_seconds=1)
