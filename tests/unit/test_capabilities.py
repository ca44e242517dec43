"""docs/capabilities.md promises a test for each row; this holds it to that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([A-Z]{2,3}-\d\d) \|", re.MULTILINE)
PROMISED = ROW.findall((ROOT / "docs" / "capabilities.md").read_text())
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))


@pytest.mark.parametrize("row", PROMISED)
def test_promised_capability_is_named_by_a_test(row: str) -> None:
    assert re.search(rf"\b{row}\b", TESTS)
