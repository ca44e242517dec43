"""Counts the size budgets: module <= 400 lines, function <= 60 lines, <= 7 parameters.

Run by `make check`. Prints every offender as file:line and ends with 1 if there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 7
ROOTS = ("provisioner", "stacks", "tools", "benchmarks")


def main() -> int:
    """Count and tell; the exit code."""
    offenders = [line for root in ROOTS for path in sorted(Path(root).rglob("*.py")) for line in count(path)]
    print("\n".join(offenders) if offenders else "budgets: every module and function is within them")
    return 1 if offenders else 0


def count(path: Path) -> Iterator[str]:
    """The offenders of one file."""
    text = path.read_text()
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield f"{path}:1: {lines} lines, allowed: {MODULE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, allowed: {FUNCTION_LINES}"
            arguments = node.args
            number = len([a for a in (*arguments.posonlyargs, *arguments.args) if a.arg not in ("self", "cls")])
            number += len(arguments.kwonlyargs)
            if number > PARAMETERS:
                yield f"{path}:{node.lineno}: {node.name} has {number} parameters, allowed: {PARAMETERS}"


if __name__ == "__main__":
    sys.exit(main())
