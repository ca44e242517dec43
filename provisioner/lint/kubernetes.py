"""Versions of Kubernetes that manifests may be meant for, and the public schemas of their built-in kinds.

The schemas come with kubernetes-validate: one folder per minor version. Read by the schema rules and the command line.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

from provisioner.domain.errors import InvariantError, RejectedError

Version = tuple[int, int]

OLDEST: Version = (1, 31)

_FOLDER = re.compile(r"v1\.([0-9]+)\.0-local-strict")
_WANTED = re.compile(r"v?1\.([0-9]{1,3})(\.[0-9]+)?")


@cache
def schemas_root() -> Path:
    """The folder of the public schemas. RejectedError without the extra that brings them and what applies them."""
    for name in ("jsonschema_rs", "kubernetes_validate"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise RejectedError(
                f"linting: not installed: {name}", reason="NoLintExtra", hint="pip install 'tenantry[lint]'"
            )
        place = Path(found.origin).parent
    return place / "kubernetes-json-schema"


@cache
def supported_versions() -> tuple[Version, ...]:
    """Every version that has schemas, oldest first."""
    minors = [int(match[1]) for path in schemas_root().iterdir() if (match := _FOLDER.fullmatch(path.name))]
    versions = tuple((1, minor) for minor in sorted(minors) if (1, minor) >= OLDEST)
    if not versions:
        raise InvariantError("listing Kubernetes versions: the installed schemas hold none")
    return versions


def chosen_version(text: str | None) -> Version:
    """The version somebody asked for, the newest one for None. Raises RejectedError for one that is not supported."""
    supported = supported_versions()
    if text is None:
        return supported[-1]
    match = _WANTED.fullmatch(text)
    version = (1, int(match[1])) if match else None
    if version not in supported:
        names = [f"1.{minor}" for _, minor in supported]
        raise RejectedError(
            f"choosing the Kubernetes version: not supported: `{text}`",
            reason="KubernetesVersionUnknown",
            hint=f"supported: {names[0]} to {names[-1]}",
        )
    return version
