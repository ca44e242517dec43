"""The gateway that these tests ask is the compiled one, where that is asked for: here and in processes that they start.

`make test-compiled` asks for it. What is compiled does the same as its source, so all else is what the other tests say.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.processes import places
from tests.unit.test_compilable import compiled_modules

LOADED = "import sys, importlib; print(*(importlib.import_module(name).__file__ for name in sys.argv[1:]), sep='\\n')"


def is_compiled(file: str | None) -> bool:
    """Whether a module's file is an extension module."""
    return bool(file and file.endswith(tuple(EXTENSION_SUFFIXES)))


def names() -> list[str]:
    """The modules that are to be compiled, as they are imported."""
    return [file.removesuffix(".py").replace("/", ".") for file in compiled_modules()]


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if not is_compiled(import_module("provisioner.gateway.caller.exchange").__file__):
        pytest.skip("needs compiled: run `make test-compiled`")


def test_every_module_of_the_list_is_compiled_and_its_source_lies_beside_it() -> None:
    files = [Path(str(import_module(name).__file__)) for name in names()]
    assert [file for file in files if not is_compiled(file.name)] == []
    assert [file for file in files if not file.with_name(f"{file.name.partition('.')[0]}.py").exists()] == []


def test_processes_use_the_compiled_modules_too() -> None:
    command = [sys.executable, "-c", LOADED, *names()]
    ran = subprocess.run(command, env=places(), capture_output=True, text=True, check=True)
    assert [file for file in ran.stdout.splitlines() if not is_compiled(file)] == []
