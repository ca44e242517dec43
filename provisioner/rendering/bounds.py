"""What one rendering of a template may take: steps, text and values. A template that doubles a text, nests a list in
itself or loops in loops is refused before it fills memory or time; whoever wrote it may be a stranger.

Environments of Jinja ask it on every loop, literal, filter, call and joined text, each with one of its own. Raises
ValueError, which becomes a finding with the template's line. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import update_wrapper
from typing import Any

MAX_STEPS = 20_000
"""Greatest number of items, calls, filters and includes of one rendering; our largest template takes about 160."""
MAX_SIZE = 1_000_000
"""Greatest size of a value: characters of its texts, and `PART` for each part of its lists and mappings, as often as it
is held."""
PART = 8
"""What a part counts: comparing and walking parts takes several times as long as copying characters."""
MAX_WORK = 20 * MAX_SIZE
"""Greatest size of all values of one rendering together."""
MAX_WIDTH = 1000
"""Greatest number that a filter or a method which fills up takes."""

_FILLING = frozenset({"batch", "center", "expandtabs", "indent", "ljust", "rjust", "round", "slice", "tojson", "zfill"})
"""Filters and methods that fill up to a number."""
_REPEATING = frozenset({"urlize", "wordwrap"})
"""Filters that write a text which they are given again and again."""
_TOO_MUCH = "it makes too much: a value that grows on and on, or loops in loops"
_FORMAT = "`format` can make a text of any size; write the text with holes instead"


class Bounds:
    """The steps and the sizes of one rendering so far; `reset` begins another one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was taken."""
        self._steps = self._work = 0

    def step(self) -> None:
        """Count a step."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ValueError("it takes too many steps: loops in loops, or templates that call themselves")

    def counted(self, found: Iterable[Any]) -> Iterator[Any]:
        """The items of a loop, each a step."""
        for item in found:
            self.step()
            yield item

    def pieces(self, pieces: Iterable[Any]) -> list[str]:
        """Pieces that shall be one text."""
        texts, size = [], 0
        for piece in pieces:
            text = str(piece)
            size += len(text)
            if size > MAX_SIZE:
                raise ValueError(_TOO_MUCH)
            texts.append(text)
        self._spend(size)
        return texts

    def measured(self, value: Any) -> Any:
        """The value, unless it or what it holds is too large."""
        if isinstance(value, str | dict | list | tuple):
            self._spend(_size(value))
        return value

    def filtered(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter of Jinja within these bounds."""

        def checked(*arguments: Any, **named: Any) -> Any:
            self.step()
            known = tuple(list(self.counted(one)) if isinstance(one, Iterator) else one for one in arguments)
            given = known[1:] if is_given_more else known
            _check_growth(name, given, named)
            for one in (*given, *named.values()):
                self.measured(one)
            return self.measured(function(*known, **named))

        is_given_more = hasattr(function, "jinja_pass_arg")
        return update_wrapper(checked, function)  # keeps Jinja's marks on functions that want the environment

    def called(self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a call before it is made; methods of texts as if they were filters."""
        self.step()
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)  # the sandbox wraps `format`
        if isinstance(owner, str):
            name = function.__name__
            is_join = name == "join"
            _check_growth("format" if name.startswith("format") else name, (owner, *arguments), named, is_join=is_join)

    def _spend(self, size: int) -> None:
        self._work += size
        if self._work > MAX_WORK:
            raise ValueError(_TOO_MUCH)


def _size(value: Any) -> int:
    """The size of a value with all that it holds, a part as often as it is held. Raises ValueError for too large."""
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += PART
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        if size + PART * len(waiting) > MAX_SIZE:
            raise ValueError(_TOO_MUCH)
    return size


def _check_growth(name: str, given: tuple[Any, ...], named: dict[str, Any], *, is_join: bool = False) -> None:
    """Raises ValueError for what a filter, or a method of a text, must not be asked for; `is_join` tells that what is
    joined comes behind what joins it."""
    if name == "format":
        raise ValueError(_FORMAT)
    if name in _FILLING:
        numbers = [one for one in (*given[1:], *named.values()) if isinstance(one, int)]
        if any(abs(one) > MAX_WIDTH for one in numbers):
            raise ValueError(f"`{name}` takes numbers up to {MAX_WIDTH} only")
    if _grown(name, [*given, *named.values()], is_join=is_join) > MAX_SIZE:
        raise ValueError(_TOO_MUCH)


def _grown(name: str, given: list[Any], *, is_join: bool) -> int:
    """How large a text becomes, at most."""
    first, *others = given or [""]
    if name == "replace" and len(others) > 1:
        text, old, new = str(first), str(others[0]), str(others[1])
        return len(text) + (text.count(old) if old else len(text) + 1) * len(new)
    if name == "join":
        held, between = (others[0] if others else (), first) if is_join else (first, others[0] if others else "")
        return _size(held) + (len(held) * len(str(between)) if isinstance(held, Sized) else 0)
    if name == "indent":
        return (str(first).count("\n") + 1) * max([4, *map(_width, others)])
    if name == "tojson" and others:
        return _indented_size(first, max(map(_width, others)))
    if name in _REPEATING:
        return len(str(first)) * (1 + sum(len(one) for one in others if isinstance(one, str)))
    return 0


def _width(one: Any) -> int:
    """How many blanks an argument asks for, as a number or as the blanks themselves."""
    return len(one) if isinstance(one, str) else abs(one) if isinstance(one, int) else 0


def _indented_size(value: Any, width: int) -> int:
    """The size of a value with every part on a line that is indented, or a number that is too large."""
    size, waiting = 0, [(value, 1)]
    while waiting and size <= MAX_SIZE:
        one, depth = waiting.pop()
        size += 1 + width * depth + (len(one) if isinstance(one, str) else 0)
        if isinstance(one, dict | list | tuple):
            waiting += [(part, depth + 1) for part in (one.values() if isinstance(one, dict) else one)]
    return size
