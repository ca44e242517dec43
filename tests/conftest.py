"""What every test shares: files in memory, golden updates, and skips that CI does not accept."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_EXAMPLES = 500 if os.environ.get("TENANTRY_SOAK") else 40
"""Of each property: what a run of the whole suite has time for, and what a soak has."""

settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=_EXAMPLES
)
settings.load_profile("any-machine")

_MEMORY = Path("/dev/shm")  # Linux keeps its files in memory
_MEMORY_BYTES = 4 * 2**30
if (
    "TMPDIR" not in os.environ
    and _MEMORY.is_dir()
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES
):  # no throw-away database, of ours or of a program's, waits for a disk; child processes do as we do
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

REQUIRED = frozenset(filter(None, os.environ.get("TENANTRY_REQUIRE", "").split(",")))
"""Components that must be there: CI installs them, so a skip for want of one is a failure."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to rewrite golden files in CI."""
    if config.getoption("--update-golden") and os.environ.get("CI"):
        raise pytest.UsageError("golden files are not rewritten in CI")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Fail a test that was skipped because a component that must be there is missing."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        component = reason.removeprefix("needs ").partition(":")[0]
        if reason.startswith("needs ") and component in REQUIRED:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: skipped, but {component} must be there: {reason}"
    return report
