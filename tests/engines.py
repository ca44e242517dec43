"""Finds the real programs that some tests use: kube-apiserver, etcd, kubectl, Pulumi.

They are looked for in the folder that KUBEBUILDER_ASSETS names, where `make engines` puts them, and on PATH. A test
that needs one which is nowhere is skipped with a line; CI names those that it could build in TENANTRY_REQUIRE.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("TENANTRY_ENGINES") or Path.home() / ".cache" / "tenantry-engines")
"""Where `make engines` puts what it builds."""


def find_engine(program: str) -> str | None:
    """The path of a program, or None."""
    folders = [os.environ.get("KUBEBUILDER_ASSETS"), str(FOLDER), os.environ.get("PATH")]
    return shutil.which(program, path=os.pathsep.join(filter(None, folders)))


def require_engine(program: str) -> str:
    """The path of a program; skips the test without it."""
    found = find_engine(program)
    if not found:
        pytest.skip(f"needs {program}: `make engines` builds it, or put it on PATH")
    return found
