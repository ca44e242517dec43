"""The words of docs/glossary.md are binding: this greps for the banned ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED_NAMES = re.compile(r"\b(?:def|class) _?(?:handle|process(?!_bind_param|_result_value)|do(?!_begin)|manage)_\w+")
"""Verbs that say nothing; SQLAlchemy's own three hooks are named so."""
BANNED_CLASSES = re.compile(r"\bclass (?!FieldManager\b)\w+Manager\b")
"""A field manager is a term of Kubernetes."""
BANNED_MODULES = {"utils", "util", "helpers", "helper", "common", "manager", "base"}
BANNED_WORDS = re.compile(r"\b(virtual cluster|host cluster|guest cluster)s?\b", re.IGNORECASE)
QUOTES = "embedded/controllers/platform"
"""The stand-in of the Platform answers in the Platform's own words."""
SOURCES = sorted((ROOT / "provisioner").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_uses_the_glossary_words(path: Path) -> None:
    text = path.read_text()
    assert path.stem not in BANNED_MODULES
    assert not BANNED_NAMES.findall(text)
    assert not BANNED_CLASSES.findall(text)
    assert QUOTES in str(path) or not BANNED_WORDS.findall(text)
