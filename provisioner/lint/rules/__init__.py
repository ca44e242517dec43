"""The rules: a package per area, a module per field of knowledge. Every `Rule` in a module below is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from types import ModuleType

from provisioner.lint.rule import Rule


@cache
def every_rule() -> tuple[Rule, ...]:
    """All rules by id. Two rules of one id are a bug."""
    rules = [found for area in areas() for module in modules(area) for found in rules_of(module)]
    return tuple(sorted(rules, key=lambda found: found.id))


def areas() -> Iterator[ModuleType]:
    """The package of every area, in the order of their names; a docstring is its title."""
    return _below(__path__, __name__)


def modules(area: ModuleType) -> Iterator[ModuleType]:
    """The modules of an area, those with shared knowledge included."""
    return _below(area.__path__, area.__name__)


def rules_of(module: ModuleType) -> list[Rule]:
    """The rules that stand in a module, by id."""
    found = [value for value in vars(module).values() if isinstance(value, Rule)]
    return sorted((value for value in found if value.check.__module__ == module.__name__), key=lambda rule: rule.id)


def _below(path: Iterable[str], name: str) -> Iterator[ModuleType]:
    return (importlib.import_module(f"{name}.{found.name}") for found in pkgutil.iter_modules(path))
