"""The words that a container runs: `command` and `args`, and the words of the script in them.

`model_servers` reads them. Variables are filled in where the container gives them a literal value; what is filled in
later, by a template or from a Secret, is unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import Hole, items, text
from provisioner.lint.world import Container

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_ENDS = re.compile(r"^[;&|]+$|^\n$")
_LONGEST = 128 * 1024
"""Characters of one argument, from which on Linux starts no program with it (MAX_ARG_STRLEN)."""
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line and the item of `command` or `args` it comes from; None for an unknown text."""

    text: str | None
    path: FieldPath


def command_line(container: Container) -> tuple[list[Word], bool]:
    """Every word, and whether a shell makes them."""
    raw = [
        Word(_known(item), (*container.path, *path))
        for part in ("command", "args")
        for path, item in items(container.value, part)
    ]
    environment = {
        name: value
        for _, item in items(container.value, "env")
        if (name := text(item, "name"))
        for value in [text(item, "value")]
    }
    if raw and raw[0].text and raw[0].text.rpartition("/")[2] in _SHELLS:
        return _script(raw[1:], environment), True
    return [Word(_expanded(word.text, environment, in_shell=False), word.path) for word in raw], False


def _known(item: object) -> str | None:
    if isinstance(item, Hole):
        name, equals, _ = item.partition("=")
        return f"{name}=" if equals and name.startswith("--") and "{" not in name else None
    is_readable = isinstance(item, str | int | float) and not isinstance(item, bool)
    return str(item) if is_readable and len(str(item)) < _LONGEST else None


def _script(words: Sequence[Word], environment: Mapping[str, str | None]) -> list[Word]:
    """The words of the scripts behind `-c`; a script that no shell could read has none."""
    found: list[Word] = []
    for word in words:
        if word.text is None or re.fullmatch(r"-[a-z]+|-o|pipefail", word.text):
            continue
        lexer = shlex.shlex(word.text.replace("\\\n", " "), posix=True, punctuation_chars=";&|\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
        try:
            tokens = list(lexer)
        except ValueError:
            continue
        found.extend(Word(_expanded(token, environment, in_shell=True), word.path) for token in tokens)
    return found


def _expanded(word: str | None, environment: Mapping[str, str | None], *, in_shell: bool) -> str | None:
    """The word with its variables filled in; None, or a flag with an empty value, where one is unknown."""
    if word is None or "$" not in word:
        return word
    unknown = False

    def fill(match: re.Match[str]) -> str:
        nonlocal unknown
        if match.group(1) is None and not in_shell:
            return match.group(0)
        value = environment.get(match.group(1) or match.group(2) or match.group(3))
        unknown = unknown or value is None
        return value or ""

    filled = _VARIABLE.sub(fill, word)
    if not unknown and not (in_shell and "$" in filled):
        return filled
    name, equals, _ = word.partition("=")
    return f"{name}=" if equals and name.startswith("--") and "$" not in name else None


def until_end(words: Sequence[Word], in_shell: bool) -> tuple[Word, ...]:
    """The words of the first command of a script; all of them where there is no script."""
    if not in_shell:
        return tuple(words)
    end = next((at for at, word in enumerate(words) if word.text is not None and _ENDS.match(word.text)), len(words))
    return tuple(words[:end])
