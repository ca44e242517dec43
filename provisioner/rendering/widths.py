"""Widths, depths and counts that templates ask filters for: one number must not make a text without end. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

GREATEST_WIDTH = 1000
"""Greatest number that a filter which fills up takes."""

_FILLING = {"batch": 1, "center": 1, "indent": 1, "round": 1, "slice": 1, "tojson": 2}
"""Filters that fill up, and how many arguments stand before their numbers: the value, and what Jinja itself gives."""


def bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of Jinja that refuses, with ValueError, to fill up more than `GREATEST_WIDTH`.

    `format` is refused whatever it is given: its text says the width.
    """
    if name not in _FILLING and name != "format":
        return function

    def checked(*arguments: Any, **named: Any) -> Any:
        if name == "format":
            raise ValueError("`format` can make a text of any size; write the text with holes instead")
        check_widths(name, *arguments[_FILLING[name] :], *named.values())
        return function(*arguments, **named)

    return update_wrapper(checked, function)  # keeps Jinja's marks on functions that want the environment


def check_widths(name: str, *arguments: Any) -> None:
    """Raises ValueError for a number above `GREATEST_WIDTH`."""
    if any(isinstance(one, int) and abs(one) > GREATEST_WIDTH for one in arguments):
        raise ValueError(f"`{name}` takes numbers up to {GREATEST_WIDTH} only")
