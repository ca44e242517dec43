"""Refuses variables that are all but a setting's name: nobody would miss what they say. Used by `gateway`, whose
settings have no prefix of their own."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from provisioner.domain.errors import RejectedError
from provisioner.settings.values import Environ

_ALIKE = 0.9
"""How much of two names must be the same, as difflib measures it: of a dozen letters, two may have changed places."""


def refuse_misspelt(environ: Environ, settings: Collection[str]) -> None:
    """RejectedError for a variable that is none of `settings` and nearly one. Others are other programs'."""
    for name in sorted(set(environ).difference(settings)):
        if near := get_close_matches(name, settings, 1, _ALIKE):
            raise RejectedError(
                f"reading the environment: {name}: there is no such setting",
                reason="BadSetting",
                hint=f"did you mean {near[0]}? If {name} is another program's, do not hand it to the gateway",
            )
