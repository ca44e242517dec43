"""The rules, one module per field of knowledge. Every `Rule` in a module of this folder is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from provisioner.lint.rule import Rule


@cache
def every_rule() -> tuple[Rule, ...]:
    """All rules by id. Two rules of one id are a bug."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    rules = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    return tuple(sorted(dict.fromkeys(rules), key=lambda found: found.id))
