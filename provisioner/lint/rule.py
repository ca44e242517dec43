"""What a rule is: an id, a severity and a function over the whole world.

The docstring of the function is the rule's page: its first line says what is wrong, the rest why it matters and where
the knowledge comes from. Every module under `rules/` is searched for rules; nothing is registered by hand.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.world import World


class Located(Protocol):
    """Anything that a finding can point at: an object, a tenant cluster's values, a file."""

    @property
    def file(self) -> str:
        """The path as it was given, from the folder that is linted."""

    @property
    def title(self) -> str:
        """What people call it, such as `Service inference/chat`; empty for a file."""

    def line(self, path: FieldPath = ()) -> int:
        """The line (from 1) of a field, or of the nearest thing around it."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a file that is no object's."""

    file: str
    at_line: int = 1

    @property
    def title(self) -> str:
        """A file is no object."""
        return ""

    def line(self, _path: FieldPath = ()) -> int:
        """The line (from 1)."""
        return self.at_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One place where a rule is broken: where, what is wrong (lower-case gerund, object, fact), what to do instead."""

    at: Located
    path: FieldPath = ()
    message: str
    fix: str


Check = Callable[[World], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `id` is kebab-case and never changes once published: people silence by it."""

    id: str
    severity: Severity
    check: Check

    @property
    def summary(self) -> str:
        """One sentence: what is wrong."""
        return self._page.partition("\n")[0]

    @property
    def explanation(self) -> str:
        """Why it matters, and the source."""
        return self._page.partition("\n")[2].strip()

    @property
    def _page(self) -> str:
        return inspect.getdoc(self.check) or ""


def rule(rule_id: str, severity: Severity) -> Callable[[Check], Rule]:
    """Make a check a rule."""
    return lambda check: Rule(rule_id, severity, check)
