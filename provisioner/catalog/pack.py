"""Where the template pack lies: templates, applications, policies and versions.yaml.

In a checkout these are folders of the repository; in an installed wheel they are data of the package. Callers: the
loader and rendering.
"""

from __future__ import annotations

from pathlib import Path

from provisioner.domain.errors import InvariantError

_PACKAGE = Path(__file__).resolve().parents[1]


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
