"""Tells whether files have changed since they were last looked at. Used wherever a file may be replaced while the
gateway runs: keys, secrets, certificates."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[tuple[int, int, int], ...]
"""What the system says of files: another one means that one of them is another, or has changed."""


def stamp_of(*files: Path) -> Stamp:
    """The stamp of these files as they are now. Raises `OSError`."""
    return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in (file.stat() for file in files))
