"""The build hook compiles where that is asked for and can be done, and leaves the wheel plain otherwise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from hatch_build import MYPY, OPTIMISED, CompiledModules, cache_of, compiler_version

NO_COMPILER = "/nonexistent/cc"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one module to compile and one to leave."""
    package = tmp_path / "source" / "package"
    package.mkdir(parents=True)
    for name in ("__init__", "hot", "plain_hot"):
        (package / f"{name}.py").write_text("")
    return tmp_path / "source"


def hook(root: Path, **changes: list[str]) -> CompiledModules:
    """The hook for that project."""
    unread = cast("Any", None)
    config = {"modules": ["package/*.py"], "plain": ["package/plain_*.py"], "sources": ["package/*.py"], **changes}
    return CompiledModules(str(root), {"compiler": "a-compiler", **config}, unread, unread, "", "wheel")


def build(hook: CompiledModules, version: str = "standard") -> dict[str, Any]:
    """What the hook makes of a wheel."""
    data: dict[str, Any] = {"pure_python": True, "infer_tag": False, "force_include": {}}
    hook.initialize(version, data)
    hook.finalize(version, data, "")
    return data


def is_plain(data: dict[str, Any]) -> bool:
    """Whether the hook left it alone."""
    return data == {"pure_python": True, "infer_tag": False, "force_include": {}}


def test_wheel_is_plain_for_an_editable_install_and_where_there_is_no_compiler(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_plain(build(hook(root), "editable"))
    monkeypatch.setenv("CC", NO_COMPILER)
    assert is_plain(build(hook(root)))
    assert hook(root).dependencies() == []


def test_what_was_compiled_of_the_same_sources_is_taken_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hook(root).dependencies() != ["a-compiler"]:
        pytest.skip("needs cc: install a C compiler and Python's headers")
    monkeypatch.setenv("TENANTRY_COMPILED", str(tmp_path / "cache"))
    sources = sorted((root / "package").glob("*.py"))
    how = [sys.version, str(compiler_version()), *MYPY, *OPTIMISED.values(), "package/hot.py"]
    cached = cache_of(how, sources, root)
    assert cached is not None
    for name in ("group__mypyc.so", "package/hot.so"):
        (cached / name).parent.mkdir(exist_ok=True)
        (cached / name).write_bytes(b"")
    data = build(hook(root))
    assert (data["pure_python"], data["infer_tag"]) == (False, True)
    assert sorted(data["force_include"].values()) == ["group__mypyc.so", "package/hot.so"]
    sources[1].write_text("changed = 1")
    assert cache_of(how, sources, root) != cached


def test_module_that_is_named_and_not_there_stops_the_build(root: Path) -> None:
    with pytest.raises(RuntimeError, match=r"names modules that are not there: package/gone\.py"):
        build(hook(root, modules=["package/gone.py"]))


def test_only_the_latest_results_are_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANTRY_COMPILED", str(tmp_path / "cache"))
    made = [cache_of([str(number)], [], root) for number in range(12)]
    assert made[-1] is not None and made[-1].is_dir()
    assert len(list((tmp_path / "cache").iterdir())) == 8
