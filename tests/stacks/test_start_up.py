"""Pulumi costs a quarter of a second to import: no command of ours pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.stacks.harness import ROOT


@pytest.mark.parametrize("command", [["--help"], ["tier", "list"], ["tier", "freeze", "--help"]], ids=" ".join)
def test_commands_do_not_import_pulumi(command: list[str]) -> None:
    program = (
        "import sys; from provisioner.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(bool({'pulumi', 'grpc', 'stacks'} & set(sys.modules)) and 3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
