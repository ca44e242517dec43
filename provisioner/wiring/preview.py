"""Previews a change: trees of a git repository in, a report out. Joins what reads, what renders and what compares.

Both sides are rendered by the code that runs; a change of our own code is nothing that a preview shows.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.delivery.cache import FileCache
from provisioner.delivery.trees import WORKING_TREE, Repository
from provisioner.domain.errors import RejectedError
from provisioner.preview.cache import key_of
from provisioner.settings import Settings

if TYPE_CHECKING:
    from provisioner.preview.report import Report
    from provisioner.wiring.sources import Files, Layout

_EXAMPLE_SITE = "provisioner/catalog/example-site.yaml"
_PACK = ("templates", "applications", "policies", "versions.yaml", "provisioner/catalog/models", _EXAMPLE_SITE)
"""Where the pack lies in its repository: all that a rendering reads."""
_SAMPLES = re.compile(r"(?:.*/)?policies/admission/[^/]+/(allowed|denied)/")
"""Objects that tests of policies are made of; no rendering reads them."""
_TIER = re.compile(r"templates/[^/_]+/tier\.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody wants to be previewed.

    Args:
        base: what is compared with; None is where the head left the default branch.
        head: None is the working tree.
        tiers: those to look at; none is all.
        fleet: bytes and name of a fleet.json; None where nothing is known to run.
        site: site.yaml; None is the installation's, else the example's.
        catalog: a folder of a provider's own that is laid over the pack.
        kubernetes: minor version of the API servers; None is the newest one known.
    """

    base: str | None = None
    head: str | None = None
    tiers: tuple[str, ...] = ()
    fleet: tuple[bytes, str] | None = None
    site: Path | None = None
    catalog: Path | None = None
    kubernetes: str | None = None


def preview(settings: Settings, question: Question, *, folder: Path, say: Callable[[str], None]) -> Report:
    """The report about the repository around `folder`; `say` is told what is not as wished.

    Raises RejectedError for what cannot be previewed at all.
    """
    repository = Repository(folder)
    head = repository.revision(question.head) if question.head else WORKING_TREE
    base = repository.revision(question.base) if question.base else repository.fork_point(head)
    overlay = question.catalog or settings.catalog
    site = question.site or (settings.site if settings.site.exists() else None)
    paths = [path for path in map(repository.inside, filter(None, (overlay, site))) if path is not None]
    below = (*_PACK, *paths)
    trees = tuple(repository.files(side, below, wanted=_is_wanted) for side in (base, head))
    layout = _layout(repository, trees, overlay=overlay, site=site)
    cache = FileCache(settings.cache / "preview")
    try:
        with tempfile.TemporaryDirectory(prefix="tenantry-preview-") as temporary:
            return _report((base.label, head.label), trees, layout, question, cache, Path(temporary), say)
    finally:
        cache.close()


def _is_wanted(path: str) -> bool:
    return not _SAMPLES.match(path)


def _layout(repository: Repository, trees: Sequence[Files], *, overlay: Path | None, site: Path | None) -> Layout:
    """Where things lie. Raises RejectedError where the repository has nothing that is previewed."""
    from provisioner.catalog.pack import example_site
    from provisioner.wiring.sources import Layout

    has_pack = any("versions.yaml" in tree and any(map(_TIER.fullmatch, tree)) for tree in trees)
    inside = {path: repository.inside(path) for path in (overlay, site) if path is not None}
    if not has_pack and not any(inside.values()):
        raise RejectedError(
            f"finding what to preview: neither a template pack nor a catalog nor a site lies in `{repository.root}`",
            reason="NothingToPreview",
            hint="run this in the repository of your templates; name your own folder with `--catalog`",
        )
    shipped = _EXAMPLE_SITE if all(_EXAMPLE_SITE in tree for tree in trees) else example_site()
    return Layout(
        has_pack=has_pack,
        overlay=None if overlay is None else inside[overlay] or overlay.absolute(),
        site=shipped if site is None else inside[site] or site.absolute(),
    )


def _report(
    labels: tuple[str, str],
    trees: Sequence[Files],
    layout: Layout,
    question: Question,
    cache: FileCache,
    folder: Path,
    say: Callable[[str], None],
) -> Report:
    from provisioner.preview.compare import compare
    from provisioner.preview.compilations import Compilations
    from provisioner.preview.fleet import read_fleet
    from provisioner.preview.judging import Judging
    from provisioner.preview.sides import Fleet
    from provisioner.preview.units import make_sides
    from provisioner.wiring.sources import open_source

    fleet = read_fleet(question.fleet[0], file=question.fleet[1]) if question.fleet else Fleet()
    code = _code_digest(layout)
    compilations = Compilations(cache, code=code)
    judging = Judging(cache, code=code, kubernetes=_kubernetes(question.kubernetes), say=say)
    compiler = compilations.compile
    base = open_source(labels[0], trees[0], layout=layout, folder=folder / "base", compiler=compiler, like=None)
    head = open_source(
        labels[1], trees[1], layout=layout, folder=folder / "head", compiler=compiler, like=(trees[0], base)
    )
    sides = make_sides(base, head, fleet=fleet, tiers=question.tiers or None, judge=judging.judge)
    compilations.keep()
    return compare(*sides, fleet=fleet)


def _kubernetes(wanted: str | None) -> str | None:
    """The minor version that was asked for. Raises RejectedError for one that the linter does not know."""
    if wanted is None:
        return None
    from provisioner.lint.kubernetes import chosen_version

    major, minor = chosen_version(wanted)
    return f"{major}.{minor}"


def _code_digest(layout: Layout) -> str:
    """Stands for our own code, the installed pack and folders outside of the repository, without reading them: names,
    sizes and times of their files."""
    import provisioner
    from provisioner.catalog.pack import pack_root

    package = Path(provisioner.__file__).parent
    folders = [package / name for name in ("admission", "catalog", "domain", "lint", "preview", "rendering")]
    if not layout.has_pack:
        folders.append(pack_root() / "policies")
    if isinstance(layout.overlay, Path):
        folders.append(layout.overlay)
    return key_of(*(line for folder in folders for line in _stamps(folder)))


def _stamps(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".pyc"):
                status = Path(place, name).stat()
                yield f"{place}/{name} {status.st_size} {status.st_mtime_ns}"
