"""Pulumi's own CLI for tests: a project of its own in a folder, a file backend, no network, every wait bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engines import require_engine

ROOT = Path(__file__).resolve().parents[2]
UP_SECONDS = 300
PROGRAMS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")


@dataclass(frozen=True, slots=True)
class Project:
    """A project folder whose stacks live in a file backend beside it."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, code: int = 0, text: str | None = None) -> str:
        """What a command prints; fails the test when the exit code is not the expected one."""
        done = subprocess.run(
            [require_engine("pulumi"), *arguments, "--non-interactive"],
            cwd=self.folder,
            env=dict(self.environment),
            input=text,
            capture_output=True,
            text=True,
            timeout=UP_SECONDS,
        )
        assert done.returncode == code, f"pulumi {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def up(self, stack: str, *arguments: str, code: int = 0) -> str:
        """Bring a stack up."""
        return self.run("up", "--stack", stack, "--yes", "--skip-preview", "--suppress-progress", *arguments, code=code)

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """The resources of a stack's state."""
        exported = json.loads(self.run("stack", "export", "--stack", stack))
        resources: list[dict[str, Any]] = exported["deployment"].get("resources", [])
        return resources


def open_project(folder: Path, *, kubeconfig: Path, home: Path) -> Project:
    """A project in a folder that has a Pulumi.yaml; skips without Pulumi."""
    programs = [Path(require_engine(program)) for program in PROGRAMS]
    backend = home / "backend"
    backend.mkdir(parents=True)
    environment = {
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "PATH": os.pathsep.join(dict.fromkeys([*(str(path.parent) for path in programs), "/usr/bin", "/bin"])),
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "only for tests",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(home / "pulumi"),
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    return Project(folder, environment)


def link_project(folder: Path) -> Path:
    """A folder with this project's Pulumi.yaml, stacks' config and code, whose config tests may change."""
    folder.mkdir()
    for path in ROOT.glob("Pulumi*.yaml"):
        (folder / path.name).write_bytes(path.read_bytes())
    for name in ("stacks", "provisioner"):
        (folder / name).symlink_to(ROOT / name)
    return folder
