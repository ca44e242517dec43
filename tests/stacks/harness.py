"""Runs a stack's program in the offline harness, as a person or CI does: a child process and what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = "organization/tenantry/platform"
PLATFORM_OUTPUTS: Mapping[str, Any] = {
    PLATFORM: {
        "connector": "argocd-main",
        "controlPlanes": ["eu-central-1"],
        "kubeconfig": "[secret]",
        "namespace": "tenantry",
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run ended and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def graph(self) -> dict[str, Any]:
        """The graph of a run that ended well."""
        assert self.code == 0, self.stderr
        graph: dict[str, Any] = json.loads(self.stdout)
        return graph

    def resources(self, kind: str) -> list[dict[str, Any]]:
        """The resources of a Kubernetes kind."""
        return [made for made in self.graph["resources"] if made["type"].rpartition(":")[2] == kind]


def run_stack(
    stack: str, *arguments: str, folder: Path, outputs: Mapping[str, Any] = PLATFORM_OUTPUTS, root: Path = ROOT
) -> Ran:
    """Run a stack; `folder` takes the file of outputs that other stacks, or its own last update, are said to have."""
    file = folder / "outputs.json"
    file.write_text(json.dumps(outputs))
    command: Sequence[str] = (sys.executable, "-m", "stacks.offline", "--stack", stack)
    done = subprocess.run(
        [*command, *arguments, "--folder", str(root), "--outputs", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)
