"""Loads one side of a preview from its files: catalog, site and pack, and as much of them as can be read.

What is wrong with one tier leaves the others to be shown; what is wrong with what all of them need leaves nothing of
that side. Files are written below a folder that the caller throws away. Called by `wiring.preview`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from provisioner.catalog.catalog import Catalog, Versions
from provisioner.catalog.checks import check_site
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site
from provisioner.catalog.site import Site
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.preview.cache import key_of
from provisioner.preview.units import Source
from provisioner.rendering.compiler import Compiler
from provisioner.rendering.digest import digest_tree
from provisioner.rendering.pack import compile_pack
from provisioner.wiring.layout import MODELS, Files, Layout

CATALOG = "catalog"
"""Stands where tiers' names stand, for what cannot be read of a catalog beside them."""

_ENTRY = re.compile(r"(?:(?P<tiers>templates)|applications/(?:runtimes|stack))/(?P<name>[^/]+)/")
_ROUNDS = 20
"""How often what is wrong is left out, and the rest read again."""


def open_source(
    label: str, files: Files, *, layout: Layout, folder: Path, compiler: Compiler, like: tuple[Files, Source] | None
) -> Source:
    """One side. `folder` is where its files are written; `like` are the files of the other side and what was made of
    them, which is used again where it would be the same."""
    _write(files, folder)
    if like is not None and layout.catalog_files(files) == layout.catalog_files(like[0]):
        source = replace(like[1], label=label)
    else:
        source = _Loading(label, dict(files), layout, folder).source()
    root, overlay = layout.root(folder), layout.overlay_in(folder)
    return replace(
        source, pack=compile_pack(source.catalog, source.site, root=root, overlay=overlay, compiler=compiler)
    )


class _Loading:
    """Loads a catalog and a site, leaving out what is wrong until the rest can be read."""

    def __init__(self, label: str, files: dict[str, bytes], layout: Layout, folder: Path) -> None:
        self._label = label
        self._files = files
        self._layout = layout
        self._folder = folder
        self._broken: dict[str, tuple[Finding, ...]] = {}

    def source(self) -> Source:
        """What could be loaded; its pack knows nothing of templates yet."""
        for _ in range(_ROUNDS):
            try:
                catalog = self._catalog()
                return self._made(catalog, self._site(catalog))
            except RejectedError as error:
                findings = error.findings or (Finding(reason=error.reason, message=error.message, hint=error.hint),)
                if not self._drop(findings):
                    break
        empty = Catalog(tiers={}, models={}, runtimes={}, versions=Versions(images={}, charts={}))
        return self._made(empty, load_site(example_site()), failure=findings)

    def _made(self, catalog: Catalog, site: Site, *, failure: tuple[Finding, ...] = ()) -> Source:
        tiers = {name: tier for name, tier in catalog.tiers.items() if name not in self._broken}
        offer = replace(catalog, tiers=tiers)
        return Source(
            label=self._label,
            catalog=offer,
            site=site,
            pack=compile_pack(offer, site),
            digest=key_of(digest_tree(self._layout.catalog_files(self._files)), site.model_dump_json()),
            broken=self._broken,
            failure=failure,
        )

    def _catalog(self) -> Catalog:
        root, overlay = self._layout.root(self._folder), self._layout.overlay_in(self._folder)
        return load_catalog(root, models=root and root / MODELS, overlay=overlay)

    def _site(self, catalog: Catalog) -> Site:
        path = self._folder / self._layout.site  # one on this machine is absolute, and stays itself
        if not path.is_file():
            raise RejectedError(
                f"reading the site: no such file: {self._layout.site}",
                reason="NoSite",
                hint="name one that both sides have with `--site`",
            )
        site = load_site(path)
        if findings := check_site(site, catalog):
            raise RejectedError(f"loading the site `{path.name}`", reason="BadSite", findings=findings)
        return site

    def _drop(self, findings: Iterable[Finding]) -> bool:
        """Leave out what each finding is about; False where one is about what everything needs."""
        about = [(finding, self._entry(finding.file or "")) for finding in findings]
        if not all(place for _, (_, place) in about):
            return False
        for finding, (name, place) in about:
            self._broken[name] = (*self._broken.get(name, ()), finding)
            self._files = {path: content for path, content in self._files.items() if not path.startswith(place)}
            if place.endswith("/"):
                shutil.rmtree(self._folder / place, ignore_errors=True)
            else:
                (self._folder / place).unlink(missing_ok=True)
        return True

    def _entry(self, file: str) -> tuple[str, str]:
        """The name and the place of the tier, runtime, component or model that holds a file as findings name it; no
        place where it is none of them, or lies outside of the repository."""
        entry = _ENTRY.match(file)
        is_model = file.endswith(".yaml") and file.rpartition("/")[0] in ("", "models")
        if entry is None and (not is_model or file in ("versions.yaml", Path(self._layout.site).name)):
            return "", ""
        ours = "" if entry else f"{MODELS}/"
        roots = [f"{self._layout.overlay}/", *([ours] if self._layout.has_pack else [])]
        places = (root.removeprefix("./") + (entry[0] if entry else file) for root in roots)
        place = next((place for place in places if any(path.startswith(place) for path in self._files)), "")
        return (entry["name"] if entry and entry["tiers"] else CATALOG), place


def _write(files: Files, folder: Path) -> None:
    for parent in {(folder / path).parent for path in files}:
        parent.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (folder / path).write_bytes(content)
