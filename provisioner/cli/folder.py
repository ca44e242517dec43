"""Writes a set of files as a folder, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from provisioner.domain.errors import RejectedError


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files (path from the folder -> content) into a folder that is new or empty.

    They appear together: the folder is filled beside its place and then moved there. Raises RejectedError for a folder
    that holds something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RejectedError(
            f"writing manifests: the folder is not empty: {folder}",
            reason="FolderNotEmpty",
            hint="name a new folder, or empty this one",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        beside.replace(folder)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        raise
