"""What pyproject.toml names to be compiled does the same when it is: nothing in it is known to differ."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
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


def test_there_are_modules_to_compile_and_they_do_not_hold_what_no_request_passes() -> None:
    modules = compiled_modules()
    assert "provisioner/gateway/caller/exchange.py" in modules
    assert "provisioner/gateway/replica/probes.py" not in modules


def test_no_exception_is_left_behind_as_the_one_being_handled() -> None:
    """mypyc forgets to put the handled exception back there: each later one would hold all those before it."""
    trees = {module: ast.parse((ROOT / module).read_text()) for module in compiled_modules()}
    found = [(module, line) for module, tree in trees.items() for line in suspended_in_finally(tree)]
    assert found == [], "name the module under `plain` in pyproject.toml, or wait elsewhere"


def test_a_wait_in_a_finally_is_found() -> None:
    tree = ast.parse("async def close():\n    try:\n        work()\n    finally:\n        await end()\n")
    assert list(suspended_in_finally(tree)) == [5]
