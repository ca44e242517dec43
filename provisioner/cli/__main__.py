"""`python -m provisioner.cli`: the same as `tenantry`, for child processes that must use this very interpreter."""

from __future__ import annotations

from provisioner.cli.main import run

run()
