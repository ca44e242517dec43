"""How the programs of stacks start and end; and that no command of ours pays a quarter of a second for Pulumi."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stacks.entry import TOLD
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


def test_an_interrupted_program_ends_without_a_word() -> None:
    """So Pulumi does when an update has failed, and tells itself what did."""
    program = (
        "import os, pulumi, runpy, signal; pulumi.run = lambda _: os.kill(os.getpid(), signal.SIGINT); "
        "runpy.run_path('stacks', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (TOLD, b"", b"")
