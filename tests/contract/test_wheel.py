"""The wheel holds everything that the code reads, and works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACK = ("templates", "applications", "policies", "versions.yaml")

READ_EVERYTHING = """
import asyncio, sys
from pathlib import Path
import provisioner
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.pack import pack_root
from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.kinds import load_builtins
from provisioner.store.sql import open_store

async def use_a_database():
    store = await open_store("sqlite:///" + str(Path("store.sqlite").absolute()), clock=SystemClock())
    print(await store.endpoints.list())
    await store.close()

assert Path(provisioner.__file__).is_relative_to(sys.argv[1]), provisioner.__file__
assert pack_root() == Path(sys.argv[1]) / "provisioner" / "_pack", pack_root()
print(*sorted(load_catalog().tiers), *sorted(load_catalog().models))
load_builtins()
asyncio.run(use_a_database())
"""

IMPORT_WITHOUT_EXTRAS = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import provisioner
others = ("provisioner.embedded.", "provisioner.store.migrations.", "provisioner.cli.__main__")
for module in pkgutil.walk_packages(provisioner.__path__, "provisioner."):
    if not module.name.startswith(others):
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, of plain Python: `make test-compiled` is about the other."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, as it lies in site-packages."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_every_file_of_package_and_pack_is_in_the_wheel(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("provisioner/")}
    assert packed == set(shipped())


def test_the_wheel_works_away_from_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    told = run(sys.executable, "-c", READ_EVERYTHING, str(unpacked), cwd=tmp_path, path=unpacked)
    assert "dedicated isolated multinode partitioned shared" in told
    assert "nvidia/parakeet-tdt-0.6b-v3" in told


def test_all_but_the_embedded_plane_works_without_extras(unpacked: Path, tmp_path: Path) -> None:
    run(sys.executable, "-c", IMPORT_WITHOUT_EXTRAS, *sorted(modules_of_extras()), cwd=tmp_path, path=unpacked)


def shipped() -> Iterator[str]:
    """What the wheel must hold, by its place in there."""
    for name in ("provisioner", *PACK):
        root = ROOT / name
        for file in [root] if root.is_file() else root.rglob("*"):
            place = file.relative_to(ROOT).as_posix()
            if file.is_file() and "__pycache__" not in place:
                yield place if name == "provisioner" else f"provisioner/_pack/{place}"


def modules_of_extras() -> Iterator[str]:
    """The modules that only an extra for users brings, of those that are installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [project["optional-dependencies"][extra] for extra in ("embedded", "demo", "postgresql")]
    names = {canonicalize_name(Requirement(text).name) for extra in extras for text in extra} - {"tenantry", "pyyaml"}
    for module, distributions in packages_distributions().items():
        if names & {canonicalize_name(distribution) for distribution in distributions}:
            yield module


def run(*command: str, cwd: Path | None = None, path: Path | None = None) -> str:
    """The standard output of a command that must succeed; `path` comes before all that is installed."""
    environment = os.environ | {"HATCH_BUILD_NO_HOOKS": "true"} | ({"PYTHONPATH": str(path)} if path else {})
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
