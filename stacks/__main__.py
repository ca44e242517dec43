"""What `pulumi up` runs: the program that the stack's config names."""

import signal
import sys
from pathlib import Path

# Pulumi puts this folder on the path, where `platform` would hide the standard library's module of that name.
_FOLDER = Path(__file__).resolve().parent
sys.path[:] = [str(_FOLDER.parent), *(entry for entry in sys.path if Path(entry).resolve() != _FOLDER)]

import pulumi  # noqa: E402

from stacks.entry import TOLD, main  # noqa: E402


def _end(_number: int, _frame: object) -> None:
    """Pulumi interrupts a program whose update failed and says why: a traceback of that would bury it."""
    raise SystemExit(TOLD)


signal.signal(signal.SIGINT, _end)
pulumi.run(main)
