"""Finds a named thing of the catalog, or says which names there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from provisioner.domain.errors import NotFoundError
from provisioner.domain.finding import unknown_name_hint

T = TypeVar("T")


def known(noun: str, name: str, things: Mapping[str, T]) -> T:
    """The thing called `name`. Raises NotFoundError with the nearest known name."""
    if name not in things:
        raise NotFoundError(f"looking up {noun}: unknown name: `{name}`", hint=unknown_name_hint(name, things))
    return things[name]
