"""Keeps the version of a tier that is published now beside its templates, before the next one is made."""

from __future__ import annotations

from pathlib import Path

from provisioner.catalog.pack import pack_root
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.settings import Settings
from provisioner.wiring import load_offer, open_pack


def freeze_tier(settings: Settings, name: str) -> list[Path]:
    """Write what the tier's current version says to files in its folder of `settings.catalog`, or of a checkout; the
    files.

    Raises NotFoundError for an unknown tier, RejectedError where it is kept already with another content or there is
    no folder of one's own.
    """
    from provisioner.rendering.versions import version_files

    catalog, site = load_offer(settings)
    if name not in catalog.tiers:
        raise NotFoundError(f"freezing tier: unknown name: `{name}`", hint=unknown_name_hint(name, catalog.tiers))
    objects = open_pack(catalog, site, settings.catalog).tier_objects(name)
    folder = _own_folder(settings) / "templates" / name
    written = []
    # The entry comes last: what lies beside it counts only where it is there.
    for file, text in sorted(version_files(objects, catalog.tiers[name].version).items(), key=_depth, reverse=True):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        written.append(path)
    return written


def _own_folder(settings: Settings) -> Path:
    if settings.catalog is not None:
        return settings.catalog
    if pack_root().name == "_pack":
        raise RejectedError(
            "freezing tier: the template pack is installed and not yours to write to",
            reason="NoCatalog",
            hint="name a folder of your own with `--catalog DIR` or TENANTRY_CATALOG",
        )
    return pack_root()


def _depth(file: tuple[str, bytes]) -> int:
    return file[0].count("/")
