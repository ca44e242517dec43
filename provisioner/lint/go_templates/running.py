"""Runs Go templates over values, within bounds of steps, depth and output. Pure.

What comes out remembers the line of the template that it comes from. A value that the chart leaves empty is printed as
a hole: whoever installs the chart gives it. Nothing is guessed: what is not known raises `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from provisioner.lint.go_templates.faults import TemplateFault, Unknown
from provisioner.lint.go_templates.names import IMPLEMENTED, function_of
from provisioner.lint.go_templates.printing import bounded, go_text
from provisioner.lint.go_templates.syntax import (
    Constant,
    Field,
    Function,
    Inner,
    Node,
    Operand,
    Pipeline,
    Variable,
    parse,
)
from provisioner.lint.go_templates.values import MAX_ITEMS, is_true

MAX_STEPS = 100_000
"""Greatest number of nodes and operands that are looked at for one file."""
MAX_OUTPUT = 2_000_000
"""Greatest number of characters that all templates of one file print together."""
MAX_INCLUDES = 40
"""Greatest depth of templates that run one another."""

_NONE_YET = object()
_PASSING = frozenset({"quote", "squote", "toString", "trim"})
"""Functions behind which an empty value is still one that nobody gave."""

_OF_CHART = frozenset({"Values", "Chart", "Release", "Capabilities", "Template", "Files"})
"""Names at the top that Helm fills itself, or that other rules look at."""

Template = Sequence[Node]
Chunk = tuple[int, str, bool]
"""A line of the template (from 1), what was printed there, and whether it is text of the template itself."""


class _Leaves(Exception):
    """`break` or `continue` within `range`."""

    def __init__(self, is_break: bool) -> None:
        super().__init__()
        self.is_break = is_break


class Lacking(NamedTuple):
    """A field that is printed behind a key and that its mapping does not have: the template and the line, the field,
    and those that the mapping has."""

    template: str
    line: int
    name: str
    known: tuple[str, ...]


@dataclass(slots=True)
class Machine:
    """Runs the templates of one chart; `hole` makes the text that stands for a value that nobody gave. `running` is the
    name of the template that runs, or that was left by an exception."""

    templates: Mapping[str, Template]
    hole: Callable[[str], str]
    running: str = ""
    lacking: list[Lacking] = field(default_factory=list)
    _steps: int = 0
    _printed: int = 0
    _depth: int = 0
    _line: int = 0

    def run(self, template: Template, root: Any, name: str = "") -> list[Chunk]:
        """What a file prints. Raises Unknown, or TemplateFault for what Helm would refuse."""
        self._steps = self._printed = self._depth = 0
        self.running = name
        chunks: list[Chunk] = []
        try:
            self._run(template, root, root, chunks)
        except (Unknown, TemplateFault) as error:
            error.line = error.line or self._line
            raise
        except (RecursionError, AttributeError, TypeError, ValueError, LookupError, ArithmeticError, _Leaves) as error:
            raise Unknown(self._line, f"{type(error).__name__}: {error}") from error
        return chunks

    def _run(self, template: Template, dot: Any, root: Any, chunks: list[Chunk]) -> None:
        _Frame(self, [{"": root}], chunks).nodes(template, dot)

    def step(self, line: int) -> None:
        """Count one step. Raises Unknown when there were too many."""
        self._steps += 1
        self._line = line or self._line
        if self._steps > MAX_STEPS:
            raise Unknown(line, "it takes too many steps")

    def count(self, text: str) -> str:
        """Count what is printed. Raises Unknown when it is too much."""
        self._printed += len(text)
        if self._printed > MAX_OUTPUT:
            raise Unknown(self._line, "it prints too much")
        return text

    def include(self, name: Any, dot: Any) -> str:
        """What a template of that name prints."""
        found = self.templates.get(name) if isinstance(name, str) else None
        if found is None:
            raise Unknown(self._line, f"there is no template `{name}` here")
        outer, self.running = self.running, str(name)
        text = self._apart(found, dot)
        self.running = outer
        return text

    def filled(self, text: Any, dot: Any) -> str:
        """What a text prints that is a template itself."""
        if not isinstance(text, str):
            raise Unknown(self._line, "a text belongs here")
        if "{{" not in text:
            return text
        try:
            return self._apart(parse(text).body, dot)
        except TemplateFault as error:
            raise Unknown(self._line, error.message) from error

    def _apart(self, template: Template, dot: Any) -> str:
        self._depth += 1
        if self._depth > MAX_INCLUDES:
            raise Unknown(self._line, "templates run one another too deep")
        line, chunks = self._line, list[Chunk]()
        self._run(template, dot, dot, chunks)
        self._depth -= 1
        self._line = line
        return bounded("".join(text for _, text, _ in chunks))

    def call(self, name: str, arguments: list[Any]) -> Any:
        """The value of a function that is known here."""
        name = function_of(name)
        if name == "include" and len(arguments) == 2:
            return self.include(*arguments)
        if name == "tpl" and len(arguments) == 2:
            return self.filled(*arguments)
        if name == "required" and len(arguments) == 2 and arguments[1] not in (None, ""):
            return arguments[1]
        function = IMPLEMENTED.get(name)
        if function is None:
            raise Unknown(self._line, f"`{name}` is not computed here")
        return function(*arguments)


@dataclass(slots=True)
class _Frame:
    """One template that runs: its variables by block, the root under the empty name, and where it prints."""

    machine: Machine
    variables: list[dict[str, Any]]
    chunks: list[Chunk]
    _line: int = field(default=0)

    def nodes(self, nodes: Sequence[Node], dot: Any) -> None:
        """Run some nodes in a block of their own."""
        self.variables.append({})
        try:
            for node in nodes:
                self._line = node.line
                self.machine.step(node.line)
                self._node(node, dot)
        finally:
            self.variables.pop()

    def _node(self, node: Node, dot: Any) -> None:
        if node.kind == "text":
            self._print(node.line, node.text, is_text=True)
        elif node.kind == "print" and node.pipeline:
            value = self.pipeline(node.pipeline, dot)
            if not node.pipeline.names:
                self._note_lacking(node, node.pipeline, value, dot)
                self._print(node.line, self._shown(node.pipeline, value))
        elif node.kind in ("if", "with") and node.pipeline:
            self.variables.append({})
            value = self.pipeline(node.pipeline, dot)
            if is_true(value):
                self.nodes(node.body, value if node.kind == "with" else dot)
            else:
                self.nodes(node.otherwise, dot)
            self.variables.pop()
        elif node.kind == "range" and node.pipeline:
            self._range(node, node.pipeline, dot)
        elif node.kind == "template":
            given = self.pipeline(node.pipeline, dot) if node.pipeline else None
            self._print(node.line, self.machine.include(node.text, given))
        elif node.kind in ("break", "continue"):
            raise _Leaves(node.kind == "break")

    def _print(self, line: int, text: str, *, is_text: bool = False) -> None:
        self.chunks.append((line, self.machine.count(text), is_text))

    def _shown(self, pipeline: Pipeline, value: Any) -> str:
        """What is printed: a hole for a value that was looked up, found empty and given no default."""
        first, *others = pipeline.commands
        is_read = len(first) == 1 and isinstance(first[0], Field | Variable) and "Values" in first[0].names
        passes = all(len(one) == 1 and isinstance(one[0], Function) and one[0].name in _PASSING for one in others)
        if is_read and passes and value in (None, "", '""', "''"):
            mark = self.machine.hole(".".join(first[0].names))  # type: ignore[union-attr]
            return f'"{mark}"' if others else mark
        return go_text(value)

    def _note_lacking(self, node: Node, pipeline: Pipeline, value: Any, dot: Any) -> None:
        """Note a field that stands alone behind a key and is none of its mapping's; not those that Helm fills."""
        first, *others = pipeline.commands
        operand = first[0]
        if value not in (None, "", '""', "''") or len(first) > 1 or not isinstance(operand, Field | Variable):
            return
        is_passed = all(len(one) == 1 and isinstance(one[0], Function) and one[0].name in _PASSING for one in others)
        is_behind_key = bool(self.chunks) and self.chunks[-1][1].endswith((": ", "- ", "="))
        if not operand.names or _OF_CHART & {*operand.names} or not is_passed or not is_behind_key:
            return
        around = self._operand(replace(operand, names=operand.names[:-1]), dot)
        if isinstance(around, dict) and around and operand.names[-1] not in around:
            known = tuple(map(str, around))
            self.machine.lacking.append(Lacking(self.machine.running, node.line, operand.names[-1], known))

    def _range(self, node: Node, pipeline: Pipeline, dot: Any) -> None:
        value = self.pipeline(Pipeline(pipeline.commands), dot)
        pairs = list(_pairs(value))
        for key, item in pairs:
            names = (key, item) if len(pipeline.names) == 2 else (item,)
            self.variables.append(dict(zip(pipeline.names, names, strict=False)))
            try:
                self.nodes(node.body, item)
            except _Leaves as leaving:
                if leaving.is_break:
                    break
            finally:
                self.variables.pop()
        if not pairs:
            self.nodes(node.otherwise, dot)

    def pipeline(self, pipeline: Pipeline, dot: Any) -> Any:
        """The value of a pipeline, kept by the variables that it starts with."""
        value: Any = _NONE_YET
        for command in pipeline.commands:
            value = self._command(command, dot, value)
        for name in pipeline.names:
            self._keep(name, value, pipeline.is_assignment)
        return value

    def _keep(self, name: str, value: Any, is_assignment: bool) -> None:
        holders = (one for one in reversed(self.variables) if name in one)
        holder = next(holders, None) if is_assignment else self.variables[-1]
        if holder is None:
            raise TemplateFault(self._line, f"undefined variable `${name}`")
        holder[name] = value

    def _command(self, command: tuple[Operand, ...], dot: Any, last: Any) -> Any:
        first, *rest = command
        self.machine.step(self._line)
        if isinstance(first, Function) and first.name in ("and", "or"):
            return self._either(first.name, [*rest], dot, last)
        arguments = [self._operand(one, dot) for one in rest] + ([] if last is _NONE_YET else [last])
        if isinstance(first, Function):
            return self.machine.call(first.name, arguments)
        value = self._operand(first, dot)
        if arguments and not callable(value):
            raise Unknown(self._line, "a value that is no function is given arguments")
        return value(*arguments) if callable(value) else value

    def _either(self, name: str, rest: list[Operand], dot: Any, last: Any) -> Any:
        value: Any = None
        for one in rest:
            value = self._operand(one, dot)
            if is_true(value) is (name == "or"):
                return value
        return value if last is _NONE_YET else last

    def _operand(self, operand: Operand, dot: Any) -> Any:
        self.machine.step(self._line)
        if isinstance(operand, Constant):
            return operand.value
        if isinstance(operand, Field):
            return self._fields(dot, operand.names)
        if isinstance(operand, Variable):
            for holder in reversed(self.variables):
                if operand.name in holder:
                    return self._fields(holder[operand.name], operand.names)
            raise TemplateFault(self._line, f"undefined variable `${operand.name}`")
        if isinstance(operand, Inner):
            return self._fields(self.pipeline(operand.pipeline, dot), operand.names)
        return self.machine.call(operand.name, [])

    def _fields(self, value: Any, names: tuple[str, ...]) -> Any:
        for name in names:
            if not isinstance(value, dict):
                raise Unknown(self._line, f"`.{name}` of something that has no fields")
            value = value.get(name)
        return value


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from ((key, value[key]) for key in sorted(value, key=str))
    elif isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from ((number, number) for number in range(min(int(value), MAX_ITEMS)))
    elif value is not None:
        raise Unknown(0, "a range over something that has no items")
