"""Previews a change: trees of a git repository in, a report out. Joins what reads, what renders and what compares.

Both sides are rendered by the code that runs; a change of our own code is nothing that a preview shows.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.delivery.cache import FileCache
from provisioner.delivery.trees import WORKING_TREE, Repository, Revision
from provisioner.domain.errors import RejectedError
from provisioner.preview.cache import key_of
from provisioner.preview.printed import Output, Printed, packed, printed, unpacked
from provisioner.preview.threshold import FailOn
from provisioner.rendering.digest import digest_tree
from provisioner.settings import Settings
from provisioner.wiring import site_note
from provisioner.wiring.layout import Files, Layout, scratch_folder

if TYPE_CHECKING:
    from provisioner.preview.report import Report

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
        kubernetes: minor version of the API servers; None is the site's.
    """

    base: str | None = None
    head: str | None = None
    tiers: tuple[str, ...] = ()
    fleet: tuple[bytes, str] | None = None
    site: Path | None = None
    catalog: Path | None = None
    kubernetes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Who is told: `note` what is not as wished, `doing` what is being done, which may take a while."""

    note: Callable[[str], None]
    doing: Callable[[str], None]


class Preview:
    """A change that was read; `open_preview` makes one."""

    def __init__(self, change: _Change, cache: FileCache, talk: Talk) -> None:
        self._change = change
        self._cache = cache
        self._talk = talk
        self._notes: list[str] = []

    def report(self) -> Report:
        """What the change does. Raises RejectedError where nothing of it can be previewed."""
        return _report(self._change, self._cache, replace(self._talk, note=self._note))

    def printed(self, output: Output, fail_on: FailOn) -> Printed:
        """The report as it is printed. Of the same change it is printed again without being made again."""
        key = key_of(self._change.digest, output, fail_on)
        if (kept := self._cache.get(key)) is not None:
            return unpacked(kept)
        made = printed(self.report(), output, fail_on)
        if not self._notes:  # they would not be said again
            self._cache.put(key, packed(made))
        return made

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._talk.note(text)


@contextmanager
def open_preview(settings: Settings, question: Question, *, folder: Path, talk: Talk) -> Iterator[Preview]:
    """The change of the repository around `folder`, with the cache for as long as it is needed. Raises RejectedError
    where there is nothing to preview."""
    change = _read_change(settings, question, folder, talk)
    cache = FileCache(settings.cache / "preview")
    try:
        yield Preview(change, cache, talk)
    finally:
        cache.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Both sides as they were read, and what else was asked for."""

    base: Revision
    head: Revision
    trees: tuple[Files, Files]
    layout: Layout
    question: Question
    code: str

    @property
    def digest(self) -> str:
        """Stands for all that the report is made from."""
        question, site = self.question, self.layout.site
        fleet = question.fleet or (b"", "")
        return key_of(
            self.code,
            *(digest_tree(tree) for tree in self.trees),
            *map(str, (self.base.label, self.head.label, self.layout, question.tiers, question.kubernetes, fleet[1])),
            site.read_bytes() if isinstance(site, Path) else b"",
            fleet[0],
        )


def _read_change(settings: Settings, question: Question, folder: Path, talk: Talk) -> _Change:
    talk.doing("reading the repository")
    repository = Repository(folder)
    head = repository.revision(question.head, option="--head") if question.head is not None else WORKING_TREE
    base = (
        repository.revision(question.base, option="--base")
        if question.base is not None
        else repository.fork_point(head)
    )
    own = question.catalog or settings.catalog
    overlay = None if own is None else repository.inside(own) or own.absolute()
    site = _site(settings, question, repository, talk)
    below = (*_PACK, *(place for place in (overlay, site) if isinstance(place, str)))
    old, new = (repository.files(side, below, wanted=_is_wanted) for side in (base, head))
    layout = _layout(repository, (old, new), overlay=overlay, site=site)
    code = _code_digest(layout)
    return _Change(base=base, head=head, trees=(old, new), layout=layout, question=question, code=code)


def _site(settings: Settings, question: Question, repository: Repository, talk: Talk) -> str | Path | None:
    """Where the site lies that was asked for, else the installation's, as a Layout has it; None where neither is
    there. Raises RejectedError for one on this machine that is no file to read."""
    site = question.site or settings.site
    if not question.site and (note := site_note(settings)):
        talk.note(note)
        if not site.exists():
            return None
    if submodule := repository.submodule_of(site):
        talk.note(f"the site lies in the submodule `{submodule}`: both sides get it as it is checked out there")
        return _outside(site)
    return repository.inside(site) or _outside(site)


def _is_wanted(path: str) -> bool:
    return not _SAMPLES.match(path)


def _layout(
    repository: Repository, trees: Sequence[Files], *, overlay: str | Path | None, site: str | Path | None
) -> Layout:
    """Where things lie. Raises RejectedError where the repository has nothing that is previewed."""
    from provisioner.catalog.pack import example_site

    has_pack = any("versions.yaml" in tree and any(map(_TIER.fullmatch, tree)) for tree in trees)
    if not has_pack and not any(isinstance(place, str) for place in (overlay, site)):
        raise RejectedError(
            f"finding what to preview: neither a template pack nor a catalog nor a site lies in `{repository.root}`",
            reason="NothingToPreview",
            hint="run this in the repository of your templates; name your own folder with `--catalog`",
        )
    shipped = _EXAMPLE_SITE if all(_EXAMPLE_SITE in tree for tree in trees) else example_site()
    return Layout(has_pack=has_pack, overlay=overlay, site=site or shipped)


def _outside(site: Path) -> Path:
    """A site that lies on this machine, not in the repository. Raises RejectedError where it is no file to read."""
    if not site.is_file() or not os.access(site, os.R_OK):
        raise RejectedError(
            f"reading the site: no file that can be read: {site}",
            reason="NoSite",
            hint="name your site.yaml with `--site`, or set TENANTRY_SITE",
        )
    return site.absolute()


def _report(change: _Change, cache: FileCache, talk: Talk) -> Report:
    from provisioner.preview.compare import compare
    from provisioner.preview.compilations import Compilations
    from provisioner.preview.fleet import read_fleet
    from provisioner.preview.judging import Judging
    from provisioner.preview.sides import Fleet
    from provisioner.preview.units import make_sides
    from provisioner.wiring.sources import open_source

    question, layout = change.question, change.layout
    fleet = read_fleet(question.fleet[0], file=question.fleet[1]) if question.fleet else Fleet()
    compilations = Compilations(cache, code=change.code)
    judging = Judging(cache, code=change.code, kubernetes=_kubernetes(question.kubernetes), say=talk.note)
    with tempfile.TemporaryDirectory(prefix="tenantry-preview-", dir=scratch_folder(change.trees)) as temporary:
        open_side = partial(open_source, layout=layout, compiler=compilations.compile)
        base = open_side(change.base.label, change.trees[0], folder=Path(temporary, "base"), like=None)
        head = open_side(
            change.head.label, change.trees[1], folder=Path(temporary, "head"), like=(change.trees[0], base)
        )
        asked = question.tiers or None
        sides = make_sides(base, head, fleet=fleet, tiers=asked, judge=judging.judge, doing=talk.doing)
        compilations.keep()
    talk.doing("comparing")
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
    folders = [package / name for name in ("admission", "catalog", "domain", "lint", "preview", "rendering", "wiring")]
    if not layout.has_pack:
        folders += [pack_root() / name for name in ("applications", "policies", "templates")]
    if isinstance(layout.overlay, Path):
        folders.append(layout.overlay)
    return key_of(*(line for folder in folders for line in _stamps(folder)))


def _stamps(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".pyc"):
                status = Path(place, name).stat()
                yield f"{place}/{name} {status.st_size} {status.st_mtime_ns}"
