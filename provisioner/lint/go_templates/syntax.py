"""Parses Go templates to trees. Pure.

Bounded in depth. Templates that `define` and `block` name come back beside the tree of the file itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioner.lint.go_templates.faults import TemplateFault, Unknown
from provisioner.lint.go_templates.tokens import Piece, Token, pieces

MAX_DEPTH = 60
"""Greatest depth of blocks, and of parentheses."""

_KEYWORDS = frozenset({"if", "range", "with", "else", "end", "define", "block", "template", "break", "continue"})


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, a number, a boolean or nil."""

    value: Any


@dataclass(frozen=True, slots=True)
class Field:
    """Fields of the dot; none of them for the dot itself."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable and fields of it; the empty name is the root."""

    name: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The name of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Inner:
    """A pipeline in parentheses and fields of its value."""

    pipeline: Pipeline
    names: tuple[str, ...]


Operand = Constant | Field | Variable | Function | Inner


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each given the value of the one before as its last argument, and the variables that keep the result."""

    commands: tuple[tuple[Operand, ...], ...]
    names: tuple[str, ...] = ()
    is_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One step: `kind` is text, print, if, with, range, template, break or continue."""

    kind: str
    line: int
    text: str = ""
    """What `text` prints, and the name of the template that `template` runs."""
    pipeline: Pipeline | None = None
    body: tuple[Node, ...] = ()
    otherwise: tuple[Node, ...] = ()


@dataclass(slots=True)
class Parsed:
    """The tree of a file, and those of the templates that it defines."""

    body: tuple[Node, ...] = ()
    defined: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    functions: list[tuple[int, str]] = field(default_factory=list)
    """Every function that is called, and the line."""


def parse(source: str) -> Parsed:
    """The trees of a template. Raises TemplateFault for what Go refuses, Unknown beyond the bounds."""
    parser = _Parser(pieces(source))
    parser.found.body, ending = parser.body(0)
    if ending is not None:
        raise TemplateFault(ending[0], f"`{ending[1]}` closes nothing")
    return parser.found


_Ending = tuple[int, str, "_Reader"]


class _Parser:
    def __init__(self, source: Iterator[Piece]) -> None:
        self._source = source
        self.found = Parsed()

    def body(self, depth: int) -> tuple[tuple[Node, ...], _Ending | None]:
        """Everything up to an `end` or `else` of this block."""
        nodes: list[Node] = []
        for piece in self._source:
            if depth > MAX_DEPTH:
                raise Unknown(piece.line, "blocks are nested too deep")
            if piece.tokens is None:
                nodes.append(Node("text", piece.line, piece.text))
                continue
            reader = _Reader(piece, self.found.functions)
            word = reader.keyword()
            if word in ("end", "else"):
                return tuple(nodes), (piece.line, word, reader)
            node = self._node(word, piece.line, reader, depth)
            nodes.extend([node] if node else ())
        return tuple(nodes), None

    def _node(self, word: str, line: int, reader: _Reader, depth: int) -> Node | None:
        if word in ("if", "with", "range"):
            return self._block(word, line, reader, depth)
        if word == "define":
            self.found.defined[reader.name()] = self._closed("define", line, depth)
            return None
        if word == "block":
            name, pipeline = reader.name(), reader.pipeline()
            self.found.defined.setdefault(name, self._closed("block", line, depth))
            return Node("template", line, name, pipeline)
        if word == "template":
            name = reader.name()
            return Node("template", line, name, None if reader.is_done else reader.pipeline())
        if word:
            return Node(word, line)
        return Node("print", line, pipeline=reader.pipeline())

    def _closed(self, word: str, line: int, depth: int) -> tuple[Node, ...]:
        body, ending = self.body(depth + 1)
        if ending is None or ending[1] != "end":
            raise TemplateFault(line, f"`{word}` has no `end`")
        return body

    def _block(self, word: str, line: int, reader: _Reader, depth: int) -> Node:
        pipeline = reader.pipeline()
        body, ending = self.body(depth + 1)
        otherwise: tuple[Node, ...] = ()
        if ending is not None and ending[1] == "else":
            chained = ending[2].keyword()
            if chained in ("if", "with"):
                return Node(word, line, "", pipeline, body, (self._block(chained, ending[0], ending[2], depth + 1),))
            otherwise, ending = self.body(depth + 1)
        if ending is None or ending[1] != "end":
            raise TemplateFault(line, f"`{word}` has no `end`")
        return Node(word, line, "", pipeline, body, otherwise)


class _Reader:
    """Reads the tokens of one action."""

    def __init__(self, piece: Piece, functions: list[tuple[int, str]]) -> None:
        self._line = piece.line
        self._tokens: Sequence[Token] = piece.tokens or ()
        self._place = 0
        self._functions = functions

    @property
    def is_done(self) -> bool:
        """Whether no token is left."""
        return self._place >= len(self._tokens)

    def keyword(self) -> str:
        """The keyword at this place, read; empty where there is none."""
        token = self._peek()
        if token and token.kind == "word" and token.text in _KEYWORDS:
            self._place += 1
            return token.text
        return ""

    def name(self) -> str:
        """The quoted name of a template."""
        token = self._next()
        if token.kind not in ("string", "raw"):
            raise TemplateFault(self._line, f"unexpected `{token.text}`: a quoted name belongs here")
        return str(token.value)

    def pipeline(self, depth: int = 0) -> Pipeline:
        """A pipeline up to the end of the action, or to the parenthesis that closes it."""
        if depth > MAX_DEPTH:
            raise Unknown(self._line, "parentheses are nested too deep")
        names, is_assignment = self._declared()
        commands: list[tuple[Operand, ...]] = []
        while True:
            commands.append(self._command(depth))
            token = self._peek()
            if token is None or token.text == ")":
                break
            self._place += 1
        if depth == 0 and not self.is_done:
            raise TemplateFault(self._line, "unexpected `)`")
        return Pipeline(tuple(commands), names, is_assignment)

    def _declared(self) -> tuple[tuple[str, ...], bool]:
        """The variables that a pipeline starts with, where it does."""
        names: list[str] = []
        place = self._place
        while place < len(self._tokens) and self._tokens[place].kind == "variable":
            names.append(self._tokens[place].value)
            sign = self._tokens[place + 1].text if place + 1 < len(self._tokens) else ""
            if sign in (":=", "="):
                self._place = place + 2
                return tuple(names), sign == "="
            if sign != ",":
                break
            place += 2
        return (), False

    def _command(self, depth: int) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while (token := self._peek()) is not None and token.text not in ("|", ")"):
            operands.append(self._operand(depth))
        if not operands:
            raise TemplateFault(self._line, "a value is missing in an action")
        return tuple(operands)

    def _operand(self, depth: int) -> Operand:
        token = self._next()
        if token.kind in ("string", "raw", "char", "number"):
            return Constant(token.value)
        if token.kind == "field":
            return Field((str(token.value), *self._fields()))
        if token.kind == "dot":
            return Field(())
        if token.kind == "variable":
            return Variable(str(token.value), self._fields())
        if token.text == "(":
            pipeline = self.pipeline(depth + 1)
            if self._peek() is None:
                raise TemplateFault(self._line, "`(` is not closed")
            self._place += 1
            return Inner(pipeline, self._fields())
        if token.kind == "word" and token.text in ("true", "false", "nil"):
            return Constant({"true": True, "false": False, "nil": None}[token.text])
        if token.kind == "word" and token.text not in _KEYWORDS:
            self._functions.append((self._line, token.text))
            return Function(token.text)
        raise TemplateFault(self._line, f"unexpected `{token.text}` in an action")

    def _fields(self) -> tuple[str, ...]:
        names: list[str] = []
        while (token := self._peek()) is not None and token.kind == "field" and token.is_glued:
            names.append(str(token.value))
            self._place += 1
        return tuple(names)

    def _peek(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self) -> Token:
        token = self._peek()
        if token is None:
            raise TemplateFault(self._line, "an action ends too early")
        self._place += 1
        return token
