"""Compiles the catalog folders among the linted files as publishing and planning would, and keeps what they make.

They are loaded as `--catalog` would load them. What is refused becomes an oddity with its file and line; what is
rendered is judged like any other objects: what a tier publishes, and everything of the endpoints that stand for it.
Reading calls it. It reads the folder through the catalog's loader and does nothing else.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site
from provisioner.catalog.site import Site
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.domain.plan import EndpointPlan
from provisioner.lint.document import Oddity
from provisioner.lint.pack_texts import pack_texts, trace_templates
from provisioner.lint.rendition import RenderedText
from provisioner.rendering.pack import Pack, compile_pack
from provisioner.rendering.publishing import Filled

Plans = Callable[[Catalog, Site, str], Iterable[EndpointPlan]]
"""From a catalog, a site and the name of a tier to the plans of endpoints that stand for it."""

_HEADS = re.compile(r"(?P<root>.*/)?(templates/(?P<tier>[^/_.][^/]*)/tier|applications/runtimes/[^/]+/runtime)\.yaml")
_NO_ATTRIBUTE = re.compile(r"'(?:\w+\.)*(\w+) object' has no attribute '(\w+)'")
"""How Jinja says that nobody defines a name: in Python's words."""


@dataclass(slots=True)
class CompiledPack:
    """A catalog folder: what is refused of it, and what it makes, each case by itself."""

    root: str
    catalog: Catalog | None = None
    oddities: list[Oddity] = field(default_factory=list)
    renditions: list[tuple[RenderedText, ...]] = field(default_factory=list)


def pack_roots(names: Iterable[str]) -> dict[str, list[str]]:
    """The tiers of every folder in the form of a catalog, by its path with a slash behind it."""
    tiers: dict[str, list[str]] = {}
    for name in sorted(names):
        if found := _HEADS.fullmatch(name):
            tiers.setdefault(found["root"] or "", []).extend([found["tier"]] if found["tier"] else [])
    return tiers


def no_plans(_catalog: Catalog, _site: Site, _tier: str) -> Iterable[EndpointPlan]:
    """Nobody plans: only what tiers publish is rendered."""
    return ()


def compiled_packs(names: frozenset[str], plans: Plans) -> list[CompiledPack]:
    """Every catalog folder among some files."""
    return [_compiled(root, tiers, names, plans) for root, tiers in pack_roots(names).items()]


def _compiled(root: str, tiers: list[str], names: frozenset[str], plans: Plans) -> CompiledPack:
    found = CompiledPack(root)
    folder = Path(root or ".")
    try:
        catalog = found.catalog = load_catalog(overlay=folder)
    except RejectedError as error:
        found.oddities += [_oddity(root, "catalog-refused", finding) for finding in _findings(error)]
        return found
    site = load_site(example_site())
    pack = compile_pack(catalog, site, overlay=folder, compiler=trace_templates)
    for tier in tiers or catalog.tiers:
        cases = _cases(found, pack, tier, plans(catalog, site, tier))
        otherwise = f"{root}templates/{tier}/tier.yaml"
        for parts in cases:
            texts = pack_texts(
                parts, root=root, names=names, otherwise=otherwise if otherwise in names else root or "."
            )
            found.renditions.append(tuple(texts))
    return found


def _cases(found: CompiledPack, pack: Pack, tier: str, plans: Iterable[EndpointPlan]) -> Iterator[list[Filled]]:
    """What a tier publishes, and the same with everything that serves each of some endpoints."""
    try:
        pack.tier_objects(tier)
        published = pack.published(tier)
    except RejectedError as error:
        found.oddities += [_oddity(found.root, "template-refused", finding) for finding in _findings(error)]
        return
    is_alone = True
    for plan in plans:
        is_alone = False
        try:
            yield [published, *pack.parts(pack.revised(plan))]
        except RejectedError as error:
            found.oddities += [_oddity(found.root, "template-refused", finding) for finding in _findings(error)]
    if is_alone:
        yield [published]


def _findings(error: RejectedError) -> tuple[Finding, ...]:
    return error.findings or (Finding(reason=error.reason, message=error.message, hint=error.hint),)


def _oddity(root: str, rule: str, finding: Finding) -> Oddity:
    file = posixpath.join(root, finding.file) if finding.file else root or "."
    path = (finding.field,) if finding.field else ()
    message = _NO_ATTRIBUTE.sub(r"reading template: \1 has no `\2`", finding.message)
    fix = finding.hint or "correct it"
    return Oddity(rule=rule, file=file, at_line=finding.line or 1, path=path, message=message, fix=fix)
