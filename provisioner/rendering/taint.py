"""Finds on Jinja's syntax tree what a template would decide from a slot, also on branches that this shape never takes.

A name is slot-derived when it is a slot, is set from one (through `set`, a macro's argument, a loop over a list of
slots, `~`) or holds a block that prints one. Slot-derived names may be printed, joined with `~`, given to macros and to
the allowed filters. Macros are known by their name, whichever file they come from. Pure; called by the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from jinja2 import nodes

Refuse = Callable[[str, int, str], Exception]
_CALCULATIONS = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.UnaryExpr)
_DECISIONS = (nodes.And, nodes.Or, nodes.Compare, nodes.Test, nodes.Getitem, nodes.Getattr, nodes.Slice)
_BECAUSE = {nodes.If: "decided on", nodes.CondExpr: "decided on", nodes.Compare: "compared", nodes.Test: "tested"}


def check_slot_uses(
    trees: Mapping[str, nodes.Template],
    slots: Mapping[str, object],
    filters: Collection[str],
    *,
    refuse: Refuse,
) -> None:
    """Raise what `refuse(file, line, message)` makes for the first use of a slot-derived name that is not allowed.

    A slot whose value is a tuple is a list of slots: it may be looped over, its items are slots.
    """
    lists = {name for name, value in slots.items() if isinstance(value, tuple)}
    macros = _Macros({name for tree in trees.values() for name in _macro_names(tree)})
    while True:
        known = macros.size()
        for file, tree in trees.items():
            _Check(file, set(slots) - lists, lists, macros, frozenset(filters), refuse).visit(tree)
        if macros.size() == known:
            return


def _macro_names(tree: nodes.Template) -> set[str]:
    return {macro.name for macro in tree.find_all(nodes.Macro)}


@dataclass
class _Macros:
    names: set[str]
    tainted: set[tuple[str, str | int]] = field(default_factory=set)

    def size(self) -> int:
        return len(self.tainted)


@dataclass
class _Check:
    file: str
    names: set[str]
    lists: set[str]
    macros: _Macros
    filters: frozenset[str]
    refuse: Refuse
    aliases: dict[str, str] = field(default_factory=dict)

    def visit(self, node: nodes.Node) -> None:
        """Check a node and what it holds; assignments on the way add to the slot-derived names."""
        method = _STATEMENTS.get(type(node))
        if method is not None:
            method(self, node)
            return
        if isinstance(node, nodes.Expr):
            self._expression(node)
        for child in node.iter_child_nodes():
            self.visit(child)

    def holds_slot(self, node: nodes.Node) -> bool:
        """Whether the node is, holds or prints something slot-derived."""
        names = [node] if isinstance(node, nodes.Name) else list(node.find_all(nodes.Name))
        return any(name.name in self.names or name.name in self.lists for name in names)

    def _expression(self, node: nodes.Expr) -> None:
        if isinstance(node, nodes.CondExpr):
            self._need_free(node, node.test)
        elif isinstance(node, (*_CALCULATIONS, *_DECISIONS)):
            self._need_free(node, node)
        elif isinstance(node, nodes.Filter) and node.name not in self.filters and node.node is not None:
            self._need_free(node, node)
        elif isinstance(node, nodes.Call):
            self._call(node)

    def _need_free(self, at: nodes.Node, node: nodes.Node) -> None:
        if self.holds_slot(node):
            use = _BECAUSE.get(type(at), "used in this expression")
            raise self.refuse(self.file, at.lineno, f"a value that comes from slot {self._who(node)} cannot be {use}")

    def _who(self, node: nodes.Node) -> str:
        names = [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name)
        return next(f"`{name.name}`" for name in names if name.name in self.names | self.lists)

    def _call(self, node: nodes.Call) -> None:
        name = node.node.attr if isinstance(node.node, nodes.Getattr) else getattr(node.node, "name", "")
        name = self.aliases.get(name, name)
        arguments = [*enumerate(node.args), *((pair.key, pair.value) for pair in node.kwargs)]
        for key, value in arguments:
            if not self.holds_slot(value):
                continue
            if name not in self.macros.names:
                raise self.refuse(
                    self.file, node.lineno, f"a value that comes from slot {self._who(value)} cannot be given to `{name}`"
                )
            self.macros.tainted.add((name, key))

    def _if(self, node: nodes.If) -> None:
        self._need_free(node, node.test)
        self._children(node)

    def _for(self, node: nodes.For) -> None:
        over_list = isinstance(node.iter, nodes.Name) and node.iter.name in self.lists
        if not over_list:
            self._need_free(node, node.iter)
        elif isinstance(node.target, nodes.Name):
            self.names.add(node.target.name)
        if node.test is not None:
            self._need_free(node, node.test)
        for child in (*node.body, *node.else_):
            self.visit(child)

    def _assign(self, node: nodes.Assign) -> None:
        self.visit(node.node)
        if self.holds_slot(node.node):
            self.names |= {name.name for name in _names(node.target)}

    def _assign_block(self, node: nodes.AssignBlock) -> None:
        for child in node.body:
            self.visit(child)
        if any(self.holds_slot(child) for child in node.body):
            self.names |= {name.name for name in _names(node.target)}

    def _macro(self, node: nodes.Macro) -> None:
        tainted = {
            argument.name
            for position, argument in enumerate(node.args)
            if {(node.name, position), (node.name, argument.name)} & self.macros.tainted
        }
        outer, self.names = self.names, (self.names - {argument.name for argument in node.args}) | tainted
        for child in (*node.defaults, *node.body):
            self.visit(child)
        self.names = outer
        if any(self.holds_slot(child) for child in node.body) or tainted:
            self.names.add(node.name)

    def _from_import(self, node: nodes.FromImport) -> None:
        for name in node.names:
            if isinstance(name, tuple):
                self.aliases[name[1]] = name[0]

    def _children(self, node: nodes.Node) -> None:
        for child in node.iter_child_nodes():
            self.visit(child)


def _names(target: nodes.Node) -> list[nodes.Name]:
    return [target] if isinstance(target, nodes.Name) else list(target.find_all(nodes.Name))


_STATEMENTS: dict[type[nodes.Node], Callable[[_Check, nodes.Node], None]] = {
    nodes.If: _Check._if,  # type: ignore[dict-item]
    nodes.For: _Check._for,  # type: ignore[dict-item]
    nodes.Assign: _Check._assign,  # type: ignore[dict-item]
    nodes.AssignBlock: _Check._assign_block,  # type: ignore[dict-item]
    nodes.Macro: _Check._macro,  # type: ignore[dict-item]
    nodes.FromImport: _Check._from_import,  # type: ignore[dict-item]
}
