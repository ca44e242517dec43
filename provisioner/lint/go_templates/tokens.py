"""Cuts the text of a Go template into pieces: text as it stands, and actions as tokens. Pure.

Source: https://pkg.go.dev/text/template and its lexer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provisioner.lint.go_templates.faults import TemplateFault, Unknown

MAX_TOKENS = 100_000
"""Greatest number of tokens of one template."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<close>-?\}\})
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<raw>`[^`]*`)
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))
  | (?P<field>\.[^\W\d]\w*)
  | (?P<dot>\.)
  | (?P<variable>\$\w*)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign>:=|[=|(),])
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"\{\{(?:-\s)?\s*/\*.*?\*/\s*?(?:\s-)?\}\}", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an action. `is_glued` tells that nothing stands between it and the one before."""

    kind: str
    text: str
    value: Any
    is_glued: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Text, or the tokens of an action, and the line (from 1) on which it starts."""

    line: int
    text: str
    tokens: tuple[Token, ...] | None = None


def pieces(source: str) -> Iterator[Piece]:
    """Every piece of a template, blanks cut off where `{{-` and `-}}` say so. Raises TemplateFault."""
    place, line, cuts, count = 0, 1, False, 0
    while (start := source.find("{{", place)) >= 0:
        text = source[place:start]
        cuts_before = source.startswith("{{-", start) and source[start + 3 : start + 4].isspace()
        if shown := _cut(text, cuts, cuts_before):
            yield Piece(line + _blank_lines(text, cuts), shown)
        line += text.count("\n")
        if comment := _COMMENT.match(source, start):
            end, cuts = comment.end(), comment[0].endswith("-}}")
        else:
            tokens, end, cuts = _action(source, start + (3 if cuts_before else 2), line)
            count += len(tokens)
            if count > MAX_TOKENS:
                raise Unknown(line, "too many tokens")
            yield Piece(line, "", tuple(tokens))
        line += source.count("\n", start, end)
        place = end
    if shown := _cut(source[place:], cuts, False):
        yield Piece(line + _blank_lines(source[place:], cuts), shown)


def _cut(text: str, at_start: bool, at_end: bool) -> str:
    text = text.lstrip(" \t\r\n") if at_start else text
    return text.rstrip(" \t\r\n") if at_end else text


def _blank_lines(text: str, is_cut: bool) -> int:
    return text[: len(text) - len(text.lstrip(" \t\r\n"))].count("\n") if is_cut else 0


def _action(source: str, place: int, line: int) -> tuple[list[Token], int, bool]:
    """The tokens of an action, where it ends, and whether it cuts blanks behind it."""
    found: list[Token] = []
    start, is_glued = place, False
    while True:
        token = _TOKEN.match(source, place)
        if token is None:
            what = f"unexpected `{source[place]}` in an action" if place < len(source) else "an action is not closed"
            raise TemplateFault(line + source.count("\n", start, place), what)
        kind, text = token.lastgroup or "", token[0]
        if kind == "close":
            return found, token.end(), text.startswith("-")
        if kind != "space":
            found.append(Token(kind, text, _value(kind, text), is_glued))
        is_glued = kind != "space"
        place = token.end()


def _value(kind: str, text: str) -> Any:
    if kind == "string":
        return unquoted(text[1:-1])
    if kind == "raw":
        return text[1:-1]
    if kind == "char":
        return ord(unquoted(text[1:-1])[:1] or " ")
    if kind == "number":
        return _number(text.replace("_", ""))
    return text[1:] if kind in ("field", "variable") else text


def _number(text: str) -> int | float:
    try:
        bare = text.lstrip("+-").lower()
        if bare.startswith("0x"):
            number = int(bare, 16)
            return -number if text.startswith("-") else number
        return float(text) if any(letter in bare for letter in ".e") else int(text[:40])
    except (ValueError, OverflowError):
        return 0


def unquoted(text: str) -> str:
    """A text of Go with its escapes resolved."""

    def letter(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            number = int(code, 16)
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
        return chr(int(found[4], 8)) if found[4] else _LETTERS.get(found[5], found[5])

    return _ESCAPE.sub(letter, text) if "\\" in text else text
