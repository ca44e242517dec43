"""What `make engines` builds and when, with a Go that notes what it is asked and builds empty programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "tools" / "engines" / "build.py"
GO = """#!/bin/sh
engine=$(basename "$PWD")
case $1 in
  list) echo v1.2.3 ;;
  build)
    echo "$engine $*" >> "$GO_LOG"
    if [ "$engine" = "$GO_REFUSES" ]; then echo 'no such module' >&2; exit 1; fi
    mkdir -p bin && echo made > "bin/$engine" ;;
esac
"""


class Make:
    """`make engines` with a target folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.target, self.log = folder / "engines", folder / "log"
        self._programs = folder / "programs"
        self._programs.mkdir()
        (self._programs / "go").write_text(GO)
        (self._programs / "go").chmod(0o755)

    def run(self, *arguments: str, refuses: str = "", code: int = 0) -> tuple[list[str], str]:
        """The engines that Go was asked to build, and what was said of failures."""
        self.log.write_text("")
        path = os.pathsep.join((str(self._programs), "/usr/bin", "/bin"))
        environ = {"PATH": path, "GO_LOG": str(self.log), "GO_REFUSES": refuses, "TENANTRY_ENGINES": str(self.target)}
        command = [sys.executable, str(BUILD), *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        return [line.partition(" ")[0] for line in self.log.read_text().splitlines()], done.stderr


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make engines` before its first run."""
    return Make(tmp_path)


def test_only_what_is_missing_is_built(make: Make) -> None:
    first, _ = make.run()
    assert first == ["etcd", "kubernetes", "pulumi", "pulumi-resource-kubernetes"]
    assert make.run()[0] == []
    (make.target / "etcd").unlink()
    assert make.run()[0] == ["etcd"]


def test_another_pin_is_built_again(make: Make) -> None:
    make.run("etcd")
    stamp = make.target / ".etcd.json"
    stamp.write_text(stamp.read_text().replace('"pin": "', '"pin": "of-before-'))
    assert make.run("etcd")[0] == ["etcd"]


def test_an_engine_that_cannot_be_built_leaves_the_others_and_its_own_last_one(make: Make) -> None:
    make.run("kubernetes")
    (make.target / ".kubernetes.json").unlink()
    built, told = make.run(refuses="kubernetes", code=1)
    assert built == ["etcd", "kubernetes", "pulumi", "pulumi-resource-kubernetes"]
    assert "error: building kubernetes:\nno such module" in told
    assert "could not be built: kubernetes; the others are in" in told
    kept = sorted(path.name for path in make.target.iterdir() if not path.name.startswith("."))
    assert kept == ["etcd", "kubernetes", "pulumi", "pulumi-resource-kubernetes"]


def test_helm_is_built_when_asked_for_and_versions_are_the_modules(make: Make) -> None:
    assert make.run("helm")[0] == ["helm"]
    assert "-X helm.sh/helm/v4/internal/version.version=v1.2.3" in make.log.read_text()


def test_unknown_engine_is_refused_with_those_that_are_known(make: Make) -> None:
    built, told = make.run("hulm", code=1)
    assert built == []
    assert told == "error: unknown engine: hulm; known: etcd, kubernetes, helm, pulumi, pulumi-resource-kubernetes\n"
