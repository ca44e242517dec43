"""The command `tenantry` for kill tests: `python -m tests.crash.quick_tenantry COMMAND …`.

The same processes, with a model server that is up at once and, unless QUICK_LEASE says otherwise, with leases of two
seconds instead of thirty, since after each kill of a worker its successor has to wait for one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from provisioner.domain import lease
from provisioner.embedded.engines import engine

if __name__ == "__main__":  # never where tests import this
    lease.LEASE_SECONDS = float(os.environ.get("QUICK_LEASE", "2"))
    lease.HEARTBEAT_SECONDS = lease.LEASE_SECONDS / 3

from provisioner.cli import main
from provisioner.cli.laptop import Laptop

COMMAND = (sys.executable, "-m", "tests.crash.quick_tenantry")
_ENGINE = engine.Engine((sys.executable, str(Path(__file__).parents[1] / "contract" / "model_engine.py")))


class QuickLaptop(Laptop):
    """A laptop whose processes are these."""

    command = COMMAND


if __name__ == "__main__":
    Laptop.command = COMMAND
    engine.laptop_engines = lambda *, lifeline, models: {"llama.cpp": _ENGINE}
    main.run()
