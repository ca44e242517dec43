"""Lints a folder of a test, as the command does, with the catalog that ships."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog
from provisioner.domain.finding import Finding
from provisioner.lint.engine import lint_paths
from provisioner.lint.kubernetes import chosen_version


@cache
def catalog() -> Catalog:
    """The catalog that ships."""
    return load_catalog()


def lint(*paths: Path, version: str | None = None, baseline: Sequence[Path] = ()) -> tuple[Finding, ...]:
    """Every finding about some paths."""
    return lint_paths(paths, catalog=catalog(), kubernetes=chosen_version(version), baseline=baseline)


def told(findings: Sequence[Finding]) -> str:
    """The findings as an assertion shows them."""
    return "\n".join(f"{finding.severity} {finding.rule} {finding}" for finding in findings)
