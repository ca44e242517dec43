"""Node trees of YAML documents, by libyaml where it is there: what `yaml_text` walks, and where it looks lines up.

Nodes tell style, tag and line; what a plain scalar means is left to `scalars`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from sys import intern

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from provisioner.catalog.fields import FieldPath
from provisioner.lint.holes import Masked
from provisioner.lint.scalars import read_plain

UNTAGGED = "untagged"
"""The tag of every node for which nobody wrote one."""
MAYBE_NO_TEXT = frozenset("+-.0123456789yYnNtTfFoO~") | {""}
"""First characters of plain scalars that may be something other than text."""


class _Bare:
    """Spares the resolver's regular expressions: whoever walks decides what a plain scalar is.

    Called for every node; a method of a constant text answers without running any Python.
    """

    descend_resolver = ascend_resolver = resolve = staticmethod(UNTAGGED.format)


class _PureLoader(_Bare, Reader, Scanner, Parser, Composer):
    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)


if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class _Loader(_Bare, CParser):
        pass
else:
    _Loader = _PureLoader  # type: ignore[assignment, misc]


def compose(text: str) -> Iterator[Node]:
    """The root nodes of all documents in a text. Raises yaml.YAMLError."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except RecursionError as error:  # the reader in plain Python knows no limit
        raise yaml.MarkedYAMLError(problem="exceeded maximum nesting depth") from error
    finally:
        loader.dispose()


def key_text(node: ScalarNode, masked: Masked | None) -> str:
    """A key as text, since JSON knows no other: `on` becomes `true`, and `0644` becomes `420`."""
    text: str = node.value
    name = intern(text) if node.style or node.tag != UNTAGGED else _plain_key(text)
    return masked.original(text) if masked and name == text else name


@lru_cache(maxsize=8192)  # the same few names stand in every object
def _plain_key(text: str) -> str:
    value = read_plain(text).value
    return intern(text) if isinstance(value, str) else json.dumps(value)


class NodeTree:
    """The tree of the first document in a text, for looking up fields; empty where the text cannot be read."""

    def __init__(self, text: str, masked: Masked | None) -> None:
        self._masked = masked
        self._entries: dict[int, dict[str, tuple[Node, Node]]] = {}
        try:
            self._root = next(compose(text), None)
        except yaml.YAMLError:
            self._root = None

    def find(self, path: FieldPath) -> tuple[Node | None, Node | None]:
        """Where the nearest field to a path starts (its key), and the field's value where it is there itself."""
        node = start = self._root
        for part in path:
            found: tuple[Node, Node] | None = None
            if isinstance(node, MappingNode):
                found = self._entries_of(node).get(str(part))
            elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
                found = node.value[part], node.value[part]
            if found is None:
                return start, None
            start, node = found
        return start, node

    def _entries_of(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        if id(node) not in self._entries:
            self._entries[id(node)] = {
                key_text(key, self._masked): (key, value) for key, value in node.value if isinstance(key, ScalarNode)
            }
        return self._entries[id(node)]
