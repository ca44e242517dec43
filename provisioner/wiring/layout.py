"""Where what a preview reads lies: in the repository, once for each side, or on this machine, once for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODELS = "provisioner/catalog/models"
"""Where the models of the pack lie in its repository."""
_HEADS = ("tier.yaml", "runtime.yaml", "component.yaml", "versions.yaml")

Files = Mapping[str, bytes]


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
