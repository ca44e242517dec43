"""Finds on Jinja's syntax tree what a template would decide from a slot, also on branches that this shape never takes.

A name is slot-derived when it is a slot, is set from one (through `set`, a macro's argument, a loop over a list of
slots, `~`) or holds a block that prints one. Slot-derived names may be printed, joined with `~`, given to macros and to
the allowed filters. Macros are known by their name, whichever file they come from. Pure; called by the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from jinja2 import nodes

Refuse = Callable[[str, int, str], Exception]

_DECIDING = (
    nodes.And,
    nodes.Or,
    nodes.Compare,
    nodes.Test,
    nodes.Getitem,
    nodes.Getattr,
    nodes.Slice,
    nodes.UnaryExpr,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.Pow,
)
"""Expressions that look at their operands."""


def check_slot_uses(
    trees: Mapping[str, nodes.Template],
    slots: Collection[str],
    lists: frozenset[str],
    filters: Collection[str],
    *,
    refuse: Refuse,
) -> None:
    """Raise what `refuse(file, line, message)` makes for the first use of a slot-derived name that is not allowed.

    `lists` are names of lists of slots: one may be looped over, its items are slots.
    """
    macros = _Macros({macro.name for tree in trees.values() for macro in tree.find_all(nodes.Macro)})
    known = -1
    while known != len(macros.given):  # a macro that is given a slot may give it on to one that was checked already
        known = len(macros.given)
        for file, tree in trees.items():
            _Check(file, set(slots), lists, macros, frozenset(filters), refuse).visit(tree)


@dataclass
class _Macros:
    """The names of all macros, and which of their arguments (by name or position) are slot-derived somewhere."""

    names: set[str]
    given: set[tuple[str, str | int]] = field(default_factory=set)


@dataclass
class _Check:
    file: str
    names: set[str]
    lists: frozenset[str]
    macros: _Macros
    filters: frozenset[str]
    refuse: Refuse
    aliases: dict[str, str] = field(default_factory=dict)

    def visit(self, node: nodes.Node) -> None:
        """Check a node and what it holds; assignments on the way add to the slot-derived names."""
        match node:
            case nodes.If() | nodes.CondExpr():
                self._need_free(node, node.test, "decided on")
            case nodes.For():
                self._loop(node)
            case nodes.Assign():
                self._set(node.target, [node.node])
            case nodes.AssignBlock():
                self._set(node.target, node.body)
            case nodes.Macro():
                self._macro(node)
                return
            case nodes.FromImport():
                self.aliases |= {name[1]: name[0] for name in node.names if isinstance(name, tuple)}
            case nodes.Call():
                self._call(node)
            case nodes.Filter() if node.name not in self.filters:
                self._need_free(node, node, f"filtered with `{node.name}`")
            case _ if isinstance(node, _DECIDING):
                self._need_free(node, node, "looked at")
        for child in node.iter_child_nodes():
            self.visit(child)

    def _derived(self, node: nodes.Node) -> str | None:
        """The first slot-derived name in the node."""
        return next((name for name in _names(node) if name in self.names or name in self.lists), None)

    def _need_free(self, at: nodes.Node, node: nodes.Node, use: str) -> None:
        if name := self._derived(node):
            raise self.refuse(
                self.file, at.lineno, f"what comes from slot `{name}` has no value yet, so cannot be {use}"
            )

    def _loop(self, node: nodes.For) -> None:
        if isinstance(node.iter, nodes.Name) and node.iter.name in self.lists:
            self.names.update(_names(node.target))
        else:
            self._need_free(node, node.iter, "looped over")
        if node.test is not None:
            self._need_free(node, node.test, "decided on")

    def _set(self, target: nodes.Node, values: list[nodes.Node]) -> None:
        if any(self._derived(value) for value in values):
            self.names.update(_names(target))

    def _macro(self, node: nodes.Macro) -> None:
        own = {argument.name for argument in node.args}
        given = {
            argument.name
            for position, argument in enumerate(node.args)
            if {(node.name, position), (node.name, argument.name)} & self.macros.given
        }
        outer, self.names = self.names, (self.names - own) | given
        for child in (*node.defaults, *node.body):
            self.visit(child)
        prints_slot = any(self._derived(child) for child in node.body)
        self.names = outer | {node.name} if prints_slot else outer

    def _call(self, node: nodes.Call) -> None:
        called = node.node.attr if isinstance(node.node, nodes.Getattr) else getattr(node.node, "name", "")
        macro = self.aliases.get(called, called)
        arguments: list[tuple[str | int, nodes.Node]] = list(enumerate(node.args))
        arguments += [(pair.key, pair.value) for pair in node.kwargs]
        for key, value in arguments:
            if self._derived(value) and macro in self.macros.names:
                self.macros.given.add((macro, key))
            else:
                self._need_free(node, value, f"given to `{called}`")


def _names(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Name):
        yield node.name
    for name in node.find_all(nodes.Name):
        yield name.name
