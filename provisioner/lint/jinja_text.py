"""Renders Jinja that anybody may have written: within bounds, and with the place of every line that comes out.

Loops, calls, includes and all that a template makes are held within the bounds of `rendering`. Filters that are not
looked at here, and those that somebody else's program brings, leave a template unrendered. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from traceback import walk_tb
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError, nodes
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from provisioner.lint.rendition import NotRendered, Place, RenderedText
from provisioner.rendering.bounds import MAX_STEPS, Bounds

_LOOKED_AT = """
abs capitalize count d default dictsort e escape first float groupby int items join last length list lower map max min
reject rejectattr replace reverse round safe select selectattr sort string sum title tojson trim unique upper
"""
_FILTERS = frozenset(_LOOKED_AT.split())
"""Filters of Jinja whose work the bounds know."""
_OPEN, _CLOSE = "\ue010", "\ue011"
_MARK = re.compile(f"{_OPEN}([^{_OPEN}]*?):([0-9]+){_CLOSE}")

Find = Callable[[str], tuple[str, str] | None]
"""From the name of a template to its file and text, None where there is none."""


def render(file: str, find: Find, values: Mapping[str, Any]) -> RenderedText:
    """What the template of a file prints for some values. Raises NotRendered where it is wrong, needs what is not known
    here, or takes too long."""
    loader = _Loader(find)
    environment = _Environment(loader)
    try:
        text = environment.get_template(file).render(values)
    except (
        *(TemplateError, TemplateNotFound, TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
        *(RecursionError, AssertionError),
    ) as error:
        raise NotRendered(_place_of(error, file, loader.files), _reason(error)) from error
    return _with_places(file, text)


def _reason(error: Exception) -> str:
    """Why, in a line."""
    if isinstance(error, TemplateNotFound):
        return f"there is no template `{error.name}`"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _place_of(error: Exception, file: str, files: Container[str]) -> Place:
    """The innermost line of a template that an error came through: its code has the file for a name."""
    if isinstance(error, TemplateSyntaxError):
        return Place(error.filename or file, error.lineno)
    place = Place(file, 1)
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename in files:
            place = Place(frame.f_code.co_filename, line)
    return place


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, loader: BaseLoader) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            cache_size=0,
        )
        self.bounds = Bounds()
        self.filters = {name: self.bounds.filtered(name, FILTERS[name]) for name in _FILTERS}
        self.filters |= {"ours_counted": self.bounds.counted, "ours_measured": self.bounds.measured}
        self.filters |= {"ours_joined": self.concat}

    def concat(self, pieces: Iterable[Any]) -> str:
        """Join texts, unless they grow too long."""
        return "".join(self.bounds.pieces(pieces))

    def call(self, context: Context, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call a macro, a method of a mapping or a function that makes a container; no other one is looked at."""
        self.bounds.called(function, arguments, named)
        if any(isinstance(one, int) and abs(one) > MAX_STEPS for one in (*arguments, *named.values())):
            raise ValueError("a number that would make too much")
        is_plain = isinstance(function, Macro) or function in (safe_range, dict, Namespace)
        if not is_plain and not isinstance(getattr(function, "__self__", None), dict):
            raise ValueError("a function that is not looked at here")
        return self.bounds.measured(super().call(context, function, *arguments, **named))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic of numbers of a reasonable size, and short texts one behind the other."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return self.concat((left, right))
        if not all(isinstance(one, int | float) and abs(one) < 10**9 for one in (left, right)):
            raise ValueError(f"`{operator}` takes numbers only")
        if operator == "**" and right > 64:
            raise ValueError("`**` makes too much")
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for data in tree.find_all(nodes.TemplateData):
            data.data = _numbered(data.data, filename or name or "", data.lineno)
        counted: nodes.Template = _Counting().visit(tree)
        return counted


class _Counting(NodeTransformer):
    """Has loops counted, and what is made measured."""

    def visit_For(self, node: nodes.For, *arguments: Any) -> nodes.Node:
        self.generic_visit(node, *arguments)
        node.iter = nodes.Filter(node.iter, "ours_counted", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat, *arguments: Any) -> nodes.Node:
        self.generic_visit(node, *arguments)
        parts = nodes.Tuple(node.nodes, "load", lineno=node.lineno)
        return nodes.Filter(parts, "ours_joined", [], [], None, None, lineno=node.lineno)

    def visit_Tuple(self, node: nodes.Tuple, *arguments: Any) -> nodes.Node:
        return self._measured(node, *arguments) if node.ctx == "load" else node

    def visit_List(self, node: nodes.List, *arguments: Any) -> nodes.Node:
        return self._measured(node, *arguments)

    def visit_Dict(self, node: nodes.Dict, *arguments: Any) -> nodes.Node:
        return self._measured(node, *arguments)

    def _measured(self, node: nodes.Expr, *arguments: Any) -> nodes.Node:
        self.generic_visit(node, *arguments)
        return nodes.Filter(node, "ours_measured", [], [], None, None, lineno=node.lineno)


class _Loader(BaseLoader):
    def __init__(self, find: Find) -> None:
        self._find = find
        self.files: set[str] = set()

    def get_source(self, environment: Any, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """The text of a template."""
        environment.bounds.step()
        found = self._find(template)
        if found is None:
            raise TemplateNotFound(template)
        self.files.add(found[0])
        return found[1], found[0], None


def _numbered(data: str, file: str, line: int) -> str:
    first, *rest = data.split("\n")
    return first + "".join(f"{_OPEN}{file}:{line + offset}{_CLOSE}\n{text}" for offset, text in enumerate(rest))


def _with_places(file: str, text: str) -> RenderedText:
    """The text without the marks at the ends of lines, and the place of each line."""
    places: list[Place] = []
    pending = 0
    lines = text.split("\n")
    for line in lines:
        pending += 1
        if marks := _MARK.findall(line):
            places += [Place(marks[-1][0], int(marks[-1][1]))] * pending
            pending = 0
    places += [places[-1] if places else Place(file, 1)] * pending
    return RenderedText(file, "\n".join(_MARK.sub("", line) for line in lines), places)
