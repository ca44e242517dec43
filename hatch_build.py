"""Puts the gateway's hot modules into the wheel compiled, by mypyc, beside their source.

hatchling calls it for each wheel; pyproject.toml names the modules and what they are compiled with. They are compiled
in a copy, so no extension module ever lies in the source tree and shadows what is edited there. Without a C compiler,
Python's headers or mypyc, with `HATCH_BUILD_NO_HOOKS=true`, and for editable installs the wheel is one of plain Python,
which does the same. docs/decisions/0012-compiled-gateway.md tells why.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MYPY = ("--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent")
"""Types of other libraries are not looked at, so that it is all one which of them are installed; `make check` does."""

OPTIMISED = {"MYPYC_OPT_LEVEL": "3", "MYPYC_DEBUG_LEVEL": "0"}
"""What the C compiler is told."""

KEPT = 8
"""How many results the cache holds."""


class CompiledModules(BuildHookInterface[BuilderConfig]):
    """Compiles `modules` without those of `plain`; `sources` is all that they import of this project."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._until_built = ExitStack()

    def dependencies(self) -> list[str]:
        """What compiling needs, where compiling is possible."""
        return [self.config["compiler"]] if can_compile_c() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together; raises RuntimeError if that fails."""
        if version == "editable":
            return
        root, compiler = Path(self.root), compiler_version()
        modules = list(self._modules(root))
        sources = [file for place in self.config["sources"] for file in sorted(root.glob(place))]
        if not (compiler and can_compile_c()):
            self.app.display_warning("the wheel is plain Python: no C compiler, no Python.h or no mypyc here")
            return
        cached = cache_of([sys.version, compiler, *MYPY, *OPTIMISED.values(), *modules], sources, root)
        if cached is None:
            cached = Path(self._until_built.enter_context(TemporaryDirectory()))
        if not any(cached.glob("*.so")):
            self.app.display_waiting(f"compiling {len(modules)} modules: a minute or two")
            compile_modules(modules, sources, root=root, into=cached)
        build_data["pure_python"], build_data["infer_tag"] = False, True
        for made in cached.rglob("*.so"):
            build_data["force_include"][str(made)] = made.relative_to(cached).as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel alone."""
        self._until_built.close()

    def _modules(self, root: Path) -> Iterable[str]:
        """The paths of what is compiled."""
        plain = {file for place in self.config["plain"] for file in root.glob(place)}
        for place in self.config["modules"]:
            found = sorted(file for file in root.glob(place) if file.name != "__init__.py")
            if not found:
                raise RuntimeError(f"compiling the gateway: pyproject.toml names modules that are not there: {place}")
            yield from (file.relative_to(root).as_posix() for file in found if file not in plain)


def can_compile_c() -> bool:
    """Whether the compiler that Python was built with, or `CC`, takes a file that includes Python's header."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if sys.implementation.name != "cpython" or not shutil.which(command[0]):
        return False
    includes = (f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}")
    tried = subprocess.run(
        [*command, *includes, "-fsyntax-only", "-x", "c", "-"], input=b"#include <Python.h>\n", capture_output=True
    )
    return tried.returncode == 0


def compiler_version() -> str | None:
    """The version of mypyc, which is mypy's; None where what it needs is not installed."""
    try:
        return f"{version('mypy')} {version('setuptools')}"
    except PackageNotFoundError:
        return None


def cache_of(how: Iterable[str], sources: Iterable[Path], root: Path) -> Path | None:
    """The folder of `TENANTRY_COMPILED` for what comes of these sources; None without such a cache."""
    if not (cache := os.environ.get("TENANTRY_COMPILED")):
        return None
    digest = hashlib.sha256("\0".join(how).encode())
    for file in sources:
        digest.update(b"\0".join([b"", str(file.relative_to(root)).encode(), file.read_bytes()]))
    folder = Path(cache) / digest.hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for old in sorted(Path(cache).iterdir(), key=lambda made: made.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def compile_modules(modules: list[str], sources: Iterable[Path], *, root: Path, into: Path) -> None:
    """Compile in a copy of the sources and move what comes out to the folder `into`."""
    with TemporaryDirectory(dir=into.parent) as work:
        for file in sources:
            place = Path(work, file.relative_to(root))
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        command = [sys.executable, "-m", "mypyc", *MYPY, *modules]
        ended = subprocess.run(command, cwd=work, env=os.environ | OPTIMISED, capture_output=True, text=True)
        if ended.returncode:
            told = (ended.stdout + ended.stderr).strip()[-4000:]
            raise RuntimeError(
                f"compiling the gateway: mypyc ended with {ended.returncode}:\n{told}\n"
                "hint: HATCH_BUILD_NO_HOOKS=true makes a wheel of plain Python, which does the same slower"
            )
        shutil.rmtree(Path(work, "build"))
        made = {file.relative_to(work): file for file in Path(work).rglob("*.so")}
        # The one that all others load, which lies at the top, comes last: a cache that holds it is complete.
        for place, file in sorted(made.items(), key=lambda item: -len(item[0].parts)):
            (into / place).parent.mkdir(parents=True, exist_ok=True)
            file.replace(into / place)
