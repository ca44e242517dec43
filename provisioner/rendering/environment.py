"""The Jinja environment in which templates are compiled, and the rendering of one template with stand-ins for slots.

Differs from plain Jinja in four things: undefined names are errors, slots refuse to be looked at (`slots.py`), filters
and tests do too, and every output line remembers the template line it came from. Called by the compiler; it never
fills a slot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, update_wrapper
from io import StringIO
from pathlib import Path
from types import CodeType
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, Template, TemplateError, TemplateNotFound, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.idtracking import VAR_LOAD_RESOLVE
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

from provisioner.catalog.document import MAX_BYTES, conflict_line
from provisioner.catalog.pack import PackFiles
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.rendering.bounds import Bounds
from provisioner.rendering.slots import LINE_CLOSE, LINE_OPEN, RESERVED, Slot, SlotMisuseError, joined
from provisioner.rendering.taint import check_slot_uses

FILTERS_FOR_SLOTS = frozenset({"indent"})
"""The only filters that take text with a slot in it: they look at line breaks, and a slot never has one."""

WHITESPACE: Mapping[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
"""How templates treat blanks around blocks."""

_GREATEST_FACTOR = 10**12
_GREATEST_EXPONENT = 64
_LINE = re.compile(f"{LINE_OPEN}([^{LINE_OPEN}]+):([0-9]+){LINE_CLOSE}")
_HINT = "compute it in Python, or make it a shape parameter"


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the template pack."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """Rendered text with marks where slots are, and the place of each of its lines."""

    text: str
    places: tuple[Source, ...]

    def place(self, line: int) -> Source:
        """Where output line `line` (from 0) came from."""
        return self.places[min(line, len(self.places) - 1)]


def refused(place: Source, message: str, *, reason: str, hint: str | None = None) -> RejectedError:
    """The error for a fault in a template."""
    finding = Finding(reason=reason, message=message, hint=hint, file=place.file, line=place.line)
    return RejectedError(
        f"compiling template `{place.file}:{place.line}`: {message}", reason=reason, hint=hint, findings=(finding,)
    )


class Templates:
    """Templates of a pack that are rendered with the same constants and stand-ins; each file of theirs is read once.

    A slot may be a tuple of stand-ins: a list whose length is part of the shape.
    """

    def __init__(
        self, files: PackFiles, *, constants: Mapping[str, Any], slots: Mapping[str, Slot | tuple[Slot, ...]]
    ) -> None:
        every = (slot for value in slots.values() for slot in (value if isinstance(value, tuple) else (value,)))
        self._loader = _Loader(files)
        self._environment = _Environment(self._loader, tuple(slot.slot_name for slot in every))
        self._values = {**constants, **slots}
        self._slots = slots

    def render(self, name: str) -> Rendered:
        """Render one of them. Raises RejectedError naming file and line for bad syntax, an undefined name, or a slot
        used for anything but printing on the way that this shape takes; `check_every_use` looks at the others."""
        self._environment.bounds.reset()
        try:
            text = str(self._environment.get_template(name).render(self._values))
        except TemplateNotFound as error:
            place = _place_of(error, name)
            raise refused(place, f"no such template: `{error.name}`", reason="TemplateMissing") from error
        except TemplateSyntaxError as error:
            place = Source(error.name or name, error.lineno)
            raise refused(place, error.message or "bad syntax", reason="TemplateSyntax") from error
        except SlotMisuseError as error:
            raise refused(_place_of(error, name), str(error), reason="SlotMisused", hint=_HINT) from error
        except RecursionError as error:
            message = "templates that include or import one another without end"
            raise refused(_place_of(error, name), message, reason="TemplateFailed", hint="break the circle") from error
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise refused(_place_of(error, name), str(error), reason="TemplateFailed") from error
        return Rendered(*_with_places(text, name))

    @property
    def names(self) -> frozenset[str]:
        """The names that those rendered so far read, on whatever branch."""
        return frozenset[str]().union(*(found.names for found in self._loader.parsed.values()))

    def check_every_use(self) -> None:
        """Refuse, naming file and line, what those rendered so far would decide from a slot on any branch."""
        trees = sorted((file, found.tree) for file, found in self._loader.parsed.items())
        lists = {name: isinstance(value, tuple) for name, value in self._slots.items()}
        _check_uses(tuple(trees), frozenset(lists.items()))


@lru_cache(maxsize=512)
def _check_uses(trees: tuple[tuple[str, nodes.Template], ...], slots: frozenset[tuple[str, bool]]) -> None:
    """Shapes of one group have the same templates and slots as a rule: what was found sound is not looked at again."""
    lists = frozenset(name for name, is_list in slots if is_list)
    check_slot_uses(dict(trees), {name for name, _ in slots} - lists, lists, FILTERS_FOR_SLOTS, refuse=_refuse_use)


_REFERRING = re.compile(r"\b(extends|import|include)\b")


def referenced_templates(name: str, source: str) -> frozenset[str]:
    """The names of the templates that one includes or imports, whether or not they are there; of a name that is put
    together while it is rendered, what it begins with and `*`. None are known of a text that is no template."""
    if not _REFERRING.search(source):
        return frozenset()
    try:
        tree = _parsed(name, source).tree
    except TemplateSyntaxError:
        return frozenset()
    found: Iterator[Any] = tree.find_all((nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include))
    return frozenset(name for node in found for name in _names_of(node.template))


def _names_of(name: nodes.Expr) -> Iterator[str]:
    if isinstance(name, nodes.Const):
        yield from (name.value if isinstance(name.value, tuple | list) else (str(name.value),))
    elif isinstance(name, nodes.Tuple | nodes.List):
        for item in name.items:
            yield from _names_of(item)
    elif isinstance(name, nodes.Concat) and isinstance(name.nodes[0], nodes.Const):
        yield f"{name.nodes[0].value}*"
    else:
        yield "*"


def _refuse_use(file: str, line: int, message: str) -> RejectedError:
    return refused(Source(file, line), message, reason="SlotMisused", hint=_HINT)


def hole(name: str) -> str:
    """What the Platform fills in later: printed text, nothing that Jinja would look at."""
    return f"{{{{ .Values.{name} }}}}"


class _Environment(ImmutableSandboxedEnvironment):
    """Templates may be anybody's, since the linter compiles them: they reach no Python and stay within bounds."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic that could make a little much, only with numbers of a reasonable size."""
        if operator == "+":
            for one in (left, right):
                self.bounds.measured(one)
            return self.bounds.measured(super().call_binop(context, operator, left, right))
        limit = _GREATEST_EXPONENT if operator == "**" else _GREATEST_FACTOR
        if not any(isinstance(value, Slot) for value in (left, right)):  # a slot refuses by itself
            if not all(isinstance(value, float | int) for value in (left, right)):
                raise TypeError(f"`{operator}` takes numbers only")
            if max(abs(left), abs(right)) > limit:
                raise ValueError(f"`{operator}` takes numbers up to {limit} only")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, *arguments: Any, **named: Any) -> Any:
        """Calls, but none of a text's methods that would fill it up without end."""
        self.bounds.called(function, arguments, named)
        return self.bounds.measured(super().call(context, function, *arguments, **named))

    def __init__(self, loader: BaseLoader, slot_names: tuple[str, ...]) -> None:
        super().__init__(loader=loader, undefined=StrictUndefined, **WHITESPACE)
        self.slot_names = slot_names
        self.bounds = Bounds()
        self.counted, self.measured = self.bounds.counted, self.bounds.measured
        self.globals = {"hole": hole}
        self.filters = {
            name: _guarded(name, self.bounds.filtered(name, function), "filtered") for name, function in FILTERS.items()
        }
        self.tests = _TESTS

    def concat(self, pieces: Iterable[Any]) -> str | Slot:  # type: ignore[override]
        return joined(self.bounds.pieces(pieces), self.slot_names)


class _Code(CodeGenerator):
    """Joins with the environment's `concat`, so that `~` keeps text with a slot a stand-in, has loops counted and lists
    and mappings measured, and keeps the names that a template reads and does not set."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.read: set[str] = set()

    def enter_frame(self, frame: Frame) -> None:
        super().enter_frame(frame)
        self.read.update(name for action, name in frame.symbols.loads.values() if name and action == VAR_LOAD_RESOLVE)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        found = node.iter
        node.iter = nodes.Call(nodes.EnvironmentAttribute("counted"), [found], [], None, None, lineno=node.lineno)
        super().visit_For(node, frame)
        node.iter = found  # others look at the same tree

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        if not isinstance(node.node, nodes.EnvironmentAttribute):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self._measured(node.node.name, lambda: self.visit(node.args[0], frame))

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._measured("measured", lambda: super(_Code, self).visit_Tuple(node, frame))
        else:
            super().visit_Tuple(node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._measured("measured", lambda: super(_Code, self).visit_List(node, frame))

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self._measured("measured", lambda: super(_Code, self).visit_Dict(node, frame))

    def _measured(self, by: str, write: Callable[[], None]) -> None:
        self.write(f"environment.{by}(")
        write()
        self.write(")")


_Environment.code_generator_class = _Code


def _guarded(name: str, function: Any, use: str) -> Callable[..., Any]:
    def guarded(*arguments: Any, **named: Any) -> Any:
        if not any(isinstance(value, Slot) for value in (*arguments, *named.values())):
            return function(*arguments, **named)
        held = next(value for value in (*arguments, *named.values()) if isinstance(value, Slot))
        if use == "filtered" and name in FILTERS_FOR_SLOTS and arguments[0] is held:
            return Slot(held.slot_name, str(function(str(held), *arguments[1:], **named)))
        raise SlotMisuseError(f"slot `{held.slot_name}` has no value yet, so it cannot be {use} with `{name}`")

    return update_wrapper(guarded, function)  # keeps Jinja's marks on functions that want the environment


_TESTS: dict[str, Any] = {name: _guarded(name, function, "tested") for name, function in TESTS.items()}


class _Loader(BaseLoader):
    """Keeps what it loads: every template that takes part in a rendering, by name."""

    def __init__(self, files: PackFiles) -> None:
        self.files = files
        self.parsed: dict[str, _Parsed] = {}

    def load(self, environment: Environment, name: str, globals: Any = None) -> Template:  # noqa: A002
        environment.bounds.step()  # type: ignore[attr-defined]
        path = None if ".." in Path(name).parts else self.files.find(name)
        if path is None:
            raise TemplateNotFound(name)
        found = self.parsed[name] = _parsed(name, _source(path, name))
        return environment.template_class.from_code(environment, found.code, globals or {}, lambda: True)


def _source(path: Path, name: str) -> str:
    """The text of a template. Raises TemplateSyntaxError for one that is too large or not UTF-8."""
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise TemplateSyntaxError(f"more bytes than {MAX_BYTES}", 1, name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TemplateSyntaxError(f"not UTF-8 at byte {error.start}", line, name) from error


class _Parsed:
    """A template's syntax tree, its code, and the names that it reads; each is made when it is asked for."""

    def __init__(self, name: str, source: str) -> None:
        self.tree = _PARSER.parse(source, name, name)
        self._name = name

    @property
    def code(self) -> CodeType:
        """What renders it. Raises TemplateSyntaxError for a filter or a test that there is none of."""
        return self._generated[0]

    @property
    def names(self) -> frozenset[str]:
        """The names that it reads and does not set."""
        return self._generated[1]

    @cached_property
    def _generated(self) -> tuple[CodeType, frozenset[str]]:
        """Made in one go; every line of text is numbered before."""
        for data in self.tree.find_all(nodes.TemplateData):
            data.data = _numbered(data.data, self._name, data.lineno)
        written = StringIO()
        generator = _Code(_PARSER, self._name, self._name, written)
        generator.visit(self.tree)
        code = compile(written.getvalue(), self._name, "exec")
        return code, frozenset(generator.read - _PARSER.globals.keys())


@lru_cache(maxsize=512)
def _parsed(name: str, source: str) -> _Parsed:
    """The template in a text, each of whose output lines carries the template's name and its own number.

    It is the same for every shape and wherever the pack lies, and making it takes most of the time that compiling does.
    """
    if RESERVED.search(source):
        raise TemplateSyntaxError("a private-use character stands in the template", 1, name)
    if line := conflict_line(source):  # inside of a block of text it would be rendered like any other
        raise TemplateSyntaxError("an unresolved merge conflict stands in the template", line, name)
    return _Parsed(name, source)


_PARSER = _Environment(BaseLoader(), ())


def _numbered(data: str, template: str, line: int) -> str:
    first, *rest = data.split("\n")
    return first + "".join(
        f"{LINE_OPEN}{template}:{line + offset}{LINE_CLOSE}\n{text}" for offset, text in enumerate(rest)
    )


def _with_places(text: str, name: str) -> tuple[str, tuple[Source, ...]]:
    """The text without the marks of its lines, and the place of each line."""
    places: list[Source] = []
    lines = text.split("\n")
    pending = 0
    for line in lines:
        pending += 1
        marks = _LINE.findall(line)
        if marks:
            template, number = marks[-1]
            places += [Source(template, int(number))] * pending
            pending = 0
    places += [places[-1] if places else Source(name, 1)] * pending
    return "\n".join(_LINE.sub("", line) for line in lines), tuple(places)


def _place_of(error: BaseException, name: str) -> Source:
    """The innermost line of a template that an error came through: templates' code has their name as its file."""
    place = Source(name, 1)
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file.endswith(".j2"):
            place = Source(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place
