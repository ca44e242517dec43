"""Writes a set of files as a folder, whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from provisioner.domain.errors import RejectedError


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files (path from the folder -> content) into a folder that is new or empty.

    They appear together: the folder is filled beside its place and then moved there. Raises RejectedError for a folder
    that holds something already, and for one that cannot be written.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise RejectedError(
                f"writing manifests: the folder is not empty: {folder}",
                reason="FolderNotEmpty",
                hint="name a new folder, or empty this one",
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            filled = Path(beside, "filled")  # a folder of one's own modes: a temporary one is closed to others
            for name, content in files.items():
                path = filled / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            filled.replace(folder)
    except OSError as error:
        raise RejectedError(
            f"writing manifests: {(error.strerror or 'it cannot be written').lower()}: {folder}",
            reason="FolderNotWritten",
            hint="name a folder that you may make",
        ) from error
