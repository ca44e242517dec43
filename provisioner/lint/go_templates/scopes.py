"""Where the dot of a Go template is no longer what the template was given. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provisioner.lint.go_templates.syntax import (
    Constant,
    Field,
    Function,
    Inner,
    Node,
    Operand,
    Parsed,
    Pipeline,
    Variable,
)

_ROOTS = frozenset({"Values", "Release", "Chart", "Capabilities"})
"""What the dot of a file has, and hardly any value."""
_PLAIN = frozenset({"until", "untilStep", "splitList", "sortAlpha", "keys", "list", "tuple", "default", "seq", "int"})
"""Functions whose value surely has none of them."""


def lost_roots(parsed: Parsed) -> Iterator[tuple[int, str, str]]:
    """Where a top-level name is read by a dot that is an item: the line, the name, and what changed the dot."""
    for body in (parsed.body, *parsed.defined.values()):
        yield from _lost(body, "")


def _lost(nodes: Sequence[Node], opener: str) -> Iterator[tuple[int, str, str]]:
    for node in nodes:
        if node.pipeline and opener:
            for name in _read(node.pipeline):
                yield node.line, name, opener
        if node.kind in ("range", "with") and node.pipeline:
            yield from _lost(node.body, node.kind if _is_item(node.pipeline) else "")
        else:
            yield from _lost(node.body, opener)
        yield from _lost(node.otherwise, opener)


def _is_item(pipeline: Pipeline) -> bool:
    """Whether the value of a pipeline is surely another one than the root: fields of something, or plain texts."""
    operands = list(_operands(pipeline))
    names = {one.name for one in operands if isinstance(one, Function)}
    first = pipeline.commands[0][0]
    is_field = isinstance(first, Field | Variable) and bool(first.names)
    is_root = any(isinstance(one, Field | Variable) and not one.names for one in operands)
    is_named = any(isinstance(one, Constant) and one.value in _ROOTS for one in operands)
    return names <= _PLAIN and (is_field or bool(names)) and not is_root and not is_named


def _read(pipeline: Pipeline) -> Iterator[str]:
    for one in _operands(pipeline):
        if isinstance(one, Field) and one.names and one.names[0] in _ROOTS:
            yield one.names[0]


def _operands(pipeline: Pipeline) -> Iterator[Operand]:
    for command in pipeline.commands:
        for one in command:
            yield one
            if isinstance(one, Inner):
                yield from _operands(one.pipeline)
