"""Loads the catalog and the Site from files; the folder listing is the registry.

`templates/<tier>/tier.yaml`, `applications/runtimes/<runtime>/runtime.yaml`, one file per model and `versions.yaml`
become one immutable Catalog. A bad file is refused with file, line, field, what was found and what is allowed, all
findings of all files at once. Never writes, never guesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from provisioner.catalog.catalog import Catalog, ImageReference, Versions
from provisioner.catalog.checks import check_catalog, check_regions
from provisioner.catalog.component import Component
from provisioner.catalog.document import Document, read_document
from provisioner.catalog.entry import Entry
from provisioner.catalog.fields import FieldPath, dotted, validate_fields
from provisioner.catalog.model import Model
from provisioner.catalog.pack import models_root, pack_root
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding

MAX_FILES = 1000
"""Greatest number of entries in one folder of the catalog."""

EntryT = TypeVar("EntryT", bound=Entry)


class _VersionsFile(Entry):
    """`versions.yaml` as it is written."""

    charts: dict[str, str] = Field(description="chart versions by key")
    images: dict[str, ImageReference] = Field(description="image references by key")


def load_catalog(root: Path | None = None, *, models: Path | None = None, overlay: Path | None = None) -> Catalog:
    """The catalog of a template pack.

    `root` holds `templates/`, `applications/` and `versions.yaml` (None: the pack that ships), `models` the model files
    (None: those that ship). A model's file is named like its id with `--` for `/`. `overlay` is a folder of a
    provider's own with any of `models/`, `templates/`, `applications/` and `versions.yaml`: what it names extends or
    replaces ours. Raises RejectedError with every finding of every file.
    """
    root = root or pack_root()
    reading = _Reading(root)
    pins = [reading.entry(root / "versions.yaml", _VersionsFile)]
    layers = [_layer(reading, root, models or models_root(), below=models or models_root())]
    if overlay is not None:
        reading.root = overlay
        reading.findings.extend(_check_overlay(overlay))
        if (overlay / "versions.yaml").exists():
            pins.append(reading.entry(overlay / "versions.yaml", _VersionsFile))
        layers.append(_layer(reading, overlay, overlay / "models", below=overlay, ours=layers[0]))
    reading.stop("loading the catalog")
    catalog = Catalog(
        tiers={name: tier for layer in layers for name, tier in layer.tiers.items()},
        models={name: model for layer in layers for name, model in layer.models.items()},
        runtimes={name: runtime for layer in layers for name, runtime in layer.runtimes.items()},
        components={name: component for layer in layers for name, component in layer.components.items()},
        versions=Versions(
            images={key: image for file in pins if file for key, image in file.images.items()},
            charts={key: chart for file in pins if file for key, chart in file.charts.items()},
        ),
    )
    reading.findings.extend(reading.placed(check_catalog(catalog)))
    reading.stop("loading the catalog")
    return catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What one folder brings: the pack's, or a provider's own that is laid over it."""

    tiers: Mapping[str, Tier]
    models: Mapping[str, Model]
    runtimes: Mapping[str, Runtime]
    components: Mapping[str, Component]


_NOTHING = _Layer(tiers={}, models={}, runtimes={}, components={})


def _layer(reading: _Reading, root: Path, models: Path, *, below: Path, ours: _Layer = _NOTHING) -> _Layer:
    """What lies in a folder and in one of models, whose files messages name from `below`. A folder that has the name of
    one of `ours` and describes none itself adds templates to it."""
    reading.root = root
    applications = root / "applications"
    tiers = reading.entries(_tier_heads(root / "templates", ours.tiers), Tier, "name")
    runtimes = reading.entries(_heads(applications / "runtimes", "runtime.yaml", ours.runtimes), Runtime, "name")
    components = reading.entries(_heads(applications / "stack", "component.yaml", ours.components), Component, "name")
    reading.root = below
    files = {path.stem.replace("--", "/"): path for path in _listed(models) if path.suffix == ".yaml"}
    return _Layer(
        tiers=tiers,
        models=reading.entries(files, Model, "id"),
        runtimes=runtimes,
        components=components,
    )


_FOLDERS = ("models", "templates", "applications")


def _check_overlay(overlay: Path) -> Iterator[Finding]:
    if not overlay.is_dir():
        message = f"reading catalog folder: there is none: {overlay}"
        yield Finding(reason="NoCatalog", message=message, hint="name an existing folder", file=str(overlay))
    elif not any((overlay / name).is_dir() for name in _FOLDERS):
        message = f"reading catalog folder: nothing of a catalog in it: {overlay}"
        hint = f"put what is yours into one of: {', '.join(f'{name}/' for name in _FOLDERS)}"
        yield Finding(reason="NoCatalog", message=message, hint=hint, file=str(overlay))


def load_site(path: Path) -> Site:
    """The Site of a `site.yaml`. Raises RejectedError with every finding; findings about runtimes need a catalog and
    come from `check_site`."""
    reading = _Reading(path.parent)
    site = reading.entry(path, Site)
    if site is not None:
        reading.findings.extend(reading.placed((path.name, finding) for finding in check_regions(site)))
    reading.stop("loading the site")
    assert site is not None  # noqa: S101 - `stop` raises when there is none
    return site


class _Reading:
    """Reads entries below a root and keeps documents, for lines, and findings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self._documents: dict[str, Document] = {}

    def entry(self, path: Path, kind: type[EntryT]) -> EntryT | None:
        """The entry in one file, or None after adding findings."""
        try:
            document = read_document(path, root=self.root)
        except RejectedError as error:
            self.findings.extend(error.findings)
            return None
        self._documents[path.relative_to(self.root).as_posix()] = document
        made = validate_fields(kind, document.value, place=lambda field: (document.file, document.line(field)))
        if isinstance(made, tuple):
            self.findings.extend(made)
            return None
        return made

    def entries(self, files: Mapping[str, Path], kind: type[EntryT], key: str) -> dict[str, EntryT]:
        """Entries by name, each of which must be named like its folder or file."""
        found = {}
        for name, path in files.items():
            made = self.entry(path, kind)
            if made is None:
                continue
            if getattr(made, key) != name:
                message = f"reading {key}: it must be `{name}` like the file's place, found `{getattr(made, key)}`"
                file = path.relative_to(self.root).as_posix()
                line = self._documents[file].line((key,))
                hint = f"change `{key}`, or move the file to where `{getattr(made, key)}` belongs"
                wrong = Finding(reason="NameMismatch", message=message, field=key, hint=hint, file=file, line=line)
                self.findings.append(wrong)
            found[name] = made
        return found

    def placed(self, findings: Iterator[tuple[str, Finding]]) -> Iterator[Finding]:
        """Findings of checks across files, with the line of their field."""
        for file, finding in findings:
            yield self._placed(file, finding)

    def _placed(self, file: str, finding: Finding) -> Finding:
        document = self._documents.get(f"models/{file}") or self._documents.get(file)
        line = document.line(_path_of(document, finding.field)) if document else None
        return replace(finding, file=document.file if document else file, line=line)

    def stop(self, doing: str) -> None:
        """Raise what was found so far."""
        if self.findings:
            raise RejectedError(
                f"{doing}: {len(self.findings)} finding(s)", reason="InvalidCatalog", findings=tuple(self.findings)
            )


def _path_of(document: Document, field: str) -> FieldPath:
    return next((path for path in document.lines if path and dotted(path) == field), ())


def _listed(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if len(paths) > MAX_FILES:
        raise RejectedError(f"listing folder: more than {MAX_FILES} entries in {folder.name}", reason="TooManyFiles")
    return paths


def _heads(folder: Path, head: str, ours: Collection[str]) -> dict[str, Path]:
    found = {path.name: path / head for path in _listed(folder) if path.is_dir()}
    return {name: path for name, path in found.items() if path.exists() or name not in ours}


def _tier_heads(folder: Path, ours: Collection[str]) -> dict[str, Path]:
    """The tiers of a folder. One that only keeps published versions describes none itself."""
    heads = _heads(folder, "tier.yaml", ours)
    return {name: head for name, head in heads.items() if head.exists() or not (head.parent / "versions").is_dir()}
