"""Where the template pack lies: templates, applications, policies and versions.yaml.

In a checkout these are folders of the repository; in an installed wheel they are data of the package. Callers: the
loader and rendering.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from provisioner.domain.errors import InvariantError

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class PackFiles:
    """The files of the pack, a provider's own folder laid over ours: the first root that has a file has the say."""

    roots: tuple[Path, ...]

    def find(self, name: str) -> Path | None:
        """The file of that name (a path below a root), None where there is none."""
        return next((root / name for root in self.roots if (root / name).is_file()), None)

    def listed(self, folder: str, pattern: str) -> Iterator[str]:
        """The names of the files in a folder that match a pattern, each once, sorted."""
        found = {f"{folder}/{path.name}" for root in self.roots for path in (root / folder).glob(pattern)}
        yield from sorted(found)


def pack_root() -> Path:
    """The folder that holds `templates/`, `applications/`, `policies/` and `versions.yaml`."""
    for root in (_PACKAGE / "_pack", _PACKAGE.parent):
        if (root / "templates").is_dir() and (root / "versions.yaml").is_file():
            return root
    raise InvariantError(
        "finding the template pack: not beside the package and not in it",
        reason="PackMissing",
        hint="install the `tenantry` distribution again",
    )


def models_root() -> Path:
    """The folder of the models that ship with the package."""
    return _PACKAGE / "catalog" / "models"


def example_site() -> Path:
    """The site that ships as an example, for planning where no installation is set up."""
    return _PACKAGE / "catalog" / "example-site.yaml"
