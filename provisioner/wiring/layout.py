"""Where what a preview reads lies: in the repository, once for each side, or on this machine, once for both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MODELS = "provisioner/catalog/models"
"""Where the models of the pack lie in its repository."""
_HEADS = ("tier.yaml", "runtime.yaml", "component.yaml", "versions.yaml")

Files = Mapping[str, bytes]

_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is a folder that only its maker may enter
"""Where Linux keeps files in memory: hundreds of small ones are written there in a twentieth of the time."""
_PAGE_BYTES = 4096


def scratch_folder(trees: Sequence[Files]) -> Path | None:
    """Where both sides can be written quickest: in memory where there is room for them twice over, None for the
    system's own choice."""
    needed = sum(len(content) + _PAGE_BYTES for tree in trees for content in tree.values())
    try:
        has_room = os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free > 2 * needed
    except OSError:
        return None
    return _MEMORY if has_room else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Text is a path inside the repository, a Path one on this machine. `has_pack` tells whether the repository holds
    the whole pack; else it is the installed one."""

    has_pack: bool
    overlay: str | Path | None
    site: str | Path

    def root(self, folder: Path) -> Path | None:
        """The pack's folder where the files of a side lie in `folder`, None for the installed one."""
        return folder if self.has_pack else None

    def overlay_in(self, folder: Path) -> Path | None:
        """The folder that is laid over the pack; one on this machine is absolute, and stays itself."""
        return None if self.overlay is None else folder / self.overlay

    def catalog_files(self, files: Files) -> Files:
        """The files that catalog, site and policies are made of."""
        return {
            path: content
            for path, content in files.items()
            if path == self.site
            or path.endswith(_HEADS)
            or path.rpartition("/")[0].endswith("models")
            or "policies/" in path
        }
