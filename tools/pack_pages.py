"""Reference pages about the pack: tiers with their options, components. Written by `reference.py`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from provisioner.catalog.loader import load_catalog
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier

NOT_SHOWN = (
    *("accelerator", "controlPlane", "description", "example", "limits"),
    *("manifests", "name", "policies", "quota", "version"),
)
"""Options of a tier that its own file tells better than a cell does."""

Rows = Sequence[Sequence[str]]


def tiers_page() -> str:
    """Every tier of the pack by its options, and every option with what it may be."""
    tiers = [tier for _, tier in sorted(load_catalog().tiers.items())]
    rows = [(f"`{tier.name}`", tier.version, tier.description) for tier in tiers]
    lines = ["# Tiers", "", "From `templates/<tier>/tier.yaml`.", "", *_table(("tier", "version", "for"), rows)]
    options = [name for name, *_ in _options(Tier) if "." not in name and name not in NOT_SHOWN]
    shown = [[f"`{name}`", *(_shown(tier, name) for tier in tiers)] for name in options]
    lines += ["", "## Options of each tier", "", *_table(("option", *(f"`{tier.name}`" for tier in tiers)), shown)]
    every = [(f"`{name}`", kind, text) for name, kind, text, _ in _options(Tier)]
    return "\n".join([*lines, "", "## What each option may be", "", *_table(("option", "value", "meaning"), every), ""])


def site_page() -> str:
    """Every field of a site."""
    rows = [(f"`{name}`", kind, unless, text) for name, kind, text, unless in _options(Site)]
    intro = (
        "Fields of `site.yaml`, which `TENANTRY_SITE` names: what differs between installations. "
        "[Describe your site](../how-to/describe-a-site.md) tells where to start."
    )
    return "\n".join(["# Site", "", intro, "", *_table(("field", "value", "when left out", "meaning"), rows), ""])


def components_page() -> str:
    """Every component that a tier's stack may name."""
    catalog = load_catalog()
    rows = [
        (
            f"`{name}`",
            component.role,
            catalog.versions.charts[component.chart],
            component.licence,
            component.min_kubernetes,
            component.runs_on,
            ", ".join(sorted(f"`{tier.name}`" for tier in catalog.tiers.values() if name in tier.stack)) or "none",
            ", ".join(f"`{provided}`" for provided in component.provides),
            ", ".join(f"`{need}`" for need in component.needs),
            component.description,
        )
        for name, component in sorted(catalog.components.items())
    ]
    columns = ("component", "role", "version", "licence", "from Kubernetes", "runs on", "tiers", "provides", "needs")
    lines = [
        "# Components",
        "",
        "From `applications/stack/<component>/component.yaml`, versions from `versions.yaml`.",
        "",
    ]
    return "\n".join([*lines, *_table((*columns, "what it is"), rows), ""])


def _options(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Name, kind of value and meaning of every option and what it is when left out, options of options below them."""
    for field, info in kind.model_fields.items():
        name = f"{prefix}{info.alias or field}"
        inner = _plain(info.annotation)
        own = _below(inner)[0] or inner
        meaning = info.description or (inspect.getdoc(own) or "" if _is_own(own) else "")
        yield name, _kind(inner), " ".join(meaning.split()), _unless(info)
        below, mark = _below(inner)
        if below is not None:
            yield from _options(below, f"{name}{mark}.")


def _unless(info: FieldInfo) -> str:
    """What a field is when nobody gives it."""
    if info.is_required():
        return "refused"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _below(kind: Any) -> tuple[type[BaseModel] | None, str]:
    """The options that a value holds, and how a path leads to them: through `[]` of a list, `.<name>` of a mapping."""
    mark = {tuple: "[]", dict: ".<name>"}.get(typing.get_origin(kind), "")
    for part in typing.get_args(kind) if mark else (kind,):
        if inspect.isclass(part) and issubclass(part, BaseModel):
            return part, mark
    return None, ""


def _plain(annotation: Any) -> Any:
    """The type that stands in an annotation, without what is said beside it and without None."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    if type(None) in typing.get_args(annotation) and len(parts) == 1:
        return _plain(parts[0])
    return annotation


def _is_own(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, BaseModel | StrEnum)


def _kind(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{value}`" for value in typing.get_args(kind))
    if inspect.isclass(kind) and issubclass(kind, StrEnum):
        return ", ".join(f"`{value}`" for value in kind)
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return "fields"
    words = {bool: "true or false", int: "whole number", str: "text", tuple: "list", dict: "mapping"}
    return words[typing.get_origin(kind) or kind]


def _shown(tier: Tier, option: str) -> str:
    value = tier.model_dump(mode="json", by_alias=True)[option]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(columns: Sequence[str], rows: Rows) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]
