"""What pyproject.toml names to be compiled does the same when it is: nothing in it is known to differ."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compiled_modules() -> list[str]:
    """The paths of the modules that the wheel has compiled, as hatch_build.py finds them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    plain = {file for place in hook["plain"] for file in ROOT.glob(place)}
    named = {file for place in hook["modules"] for file in ROOT.glob(place) if file.name != "__init__.py"}
    return sorted(file.relative_to(ROOT).as_posix() for file in named - plain)


def suspended_in_finally(tree: ast.AST) -> Iterator[int]:
    """The lines where a coroutine or generator is left while an exception may be on its way through `finally`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            for inner in (inner for statement in node.finalbody for inner in ast.walk(statement)):
                if isinstance(inner, ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncFor | ast.AsyncWith):
                    yield inner.lineno


def names_of_several_errors(tree: ast.AST) -> Iterator[str]:
    """What two clauses of a function call their errors, when those are of different types."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            types = defaultdict[str, set[str]](set)
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                    types[node.name].add(ast.unparse(node.type))
            yield from (f"{function.name}: {name}" for name, kinds in types.items() if len(kinds) > 1)


def test_there_are_modules_to_compile_and_they_do_not_hold_what_no_request_passes() -> None:
    modules = compiled_modules()
    assert "provisioner/gateway/caller/exchange.py" in modules
    assert "provisioner/gateway/replica/probes.py" not in modules


def found_in_compiled_modules(search: Callable[[ast.AST], Iterator[object]]) -> list[object]:
    """What a search finds there, with the module."""
    trees = {module: ast.parse((ROOT / module).read_text()) for module in compiled_modules()}
    return [(module, found) for module, tree in trees.items() for found in search(tree)]


def test_no_exception_is_left_behind_as_the_one_being_handled() -> None:
    """mypyc forgets to put the handled exception back there: each later one would hold all those before it."""
    hint = "name the module under `plain` in pyproject.toml, or wait elsewhere"
    assert found_in_compiled_modules(suspended_in_finally) == [], hint


def test_errors_of_two_types_have_two_names() -> None:
    """mypyc gives a name the type of its first clause: an error of the other raises TypeError instead."""
    assert found_in_compiled_modules(names_of_several_errors) == []


def test_what_differs_is_found() -> None:
    waits = "async def close():\n    try:\n        work()\n    finally:\n        await end()\n"
    assert list(suspended_in_finally(ast.parse(waits))) == [5]
    clauses = "def read():\n    try: f()\n    except A as error: g(error)\n    except B as error: h(error)\n"
    assert list(names_of_several_errors(ast.parse(clauses))) == ["read: error"]
    assert list(names_of_several_errors(ast.parse(clauses.replace("except B", "except A")))) == []
