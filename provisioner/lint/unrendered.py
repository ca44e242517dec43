"""Tells what is not rendered, and so not checked: charts, folders of templates. Reading notes it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from provisioner.domain.finding import nearest_name
from provisioner.lint.document import Oddity
from provisioner.lint.helm import RenderedChart
from provisioner.lint.jinja_folders import TEMPLATE_SUFFIXES, JinjaFolder
from provisioner.lint.rendition import NotRendered

RULE = "not-rendered"


def not_rendered(what: str, why: NotRendered, *, tool: str) -> Oddity:
    """What is told of templates that are not rendered; `tool` prints them otherwise."""
    message = f"rendering {what}: what it makes is not checked, since {why.reason}"
    fix = f"lint what {tool} prints"
    return Oddity(rule=RULE, file=why.place.file, at_line=why.place.line, message=message, fix=fix)


def lacking_oddities(rendered: RenderedChart) -> Iterator[Oddity]:
    """Fields that a template prints behind a key and that an item of the chart's values does not have."""
    for place, name, known in rendered.lacking:
        near = nearest_name(name, known)
        fix = f"did you mean `{near}`?" if near else f"give it a `default`; the item has: {', '.join(known)[:200]}"
        message = f"filling hole: an item of the values has no such field: `{name}`"
        yield Oddity(rule="chart-value-missing", file=place.file, at_line=place.line, message=message, fix=fix)


def bare_folders(texts: Mapping[str, str], folders: Iterable[JinjaFolder], packs: Iterable[str]) -> Iterator[Oddity]:
    """Folders of Jinja templates for YAML without a file of their parameters, one above others told alone; `packs` are
    the roots of catalog folders, whose templates are compiled."""
    known = {name for folder in folders for name in folder.templates}
    ours = tuple(f"{root}{part}/" for root in packs for part in ("templates", "applications", "policies"))
    told: list[str] = []
    for name in sorted(texts, key=lambda name: (name.count("/"), name)):
        folder = str(PurePosixPath(name).parent)
        is_bare = name.endswith(TEMPLATE_SUFFIXES) and name not in known and not name.startswith(ours)
        if is_bare and not any(f"{folder}/".startswith(f"{one}/") or one == "." for one in told):
            told.append(folder)
            message = f"rendering templates of `{folder}`: what they make is not checked, since nobody fills them here"
            fix = "put their parameters beside them, such as params.yaml or values.yaml, or lint what is rendered"
            yield Oddity(rule=RULE, file=name, at_line=1, message=message, fix=fix)
