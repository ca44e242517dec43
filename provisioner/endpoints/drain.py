"""Takes an endpoint out of service: no new requests, those that run end or have their time, then no replica runs.

It stays drained until it is warmed: what Argo CD heals does not bring replicas back.
"""

from __future__ import annotations

from provisioner.endpoints import standby
from provisioner.endpoints.pool import of_own
from provisioner.endpoints.progress import waiting_out
from provisioner.endpoints.world import World
from provisioner.operations.step import Step

DEADLINE_SECONDS = 4 * 3600.0
"""As for warming, which cancelling a drain amounts to."""

STEPS: tuple[Step[World], ...] = (
    Step(name="assess", run=waiting_out(standby.assess)),
    Step(name="withdraw", run=waiting_out(standby.withdraw)),
    Step(name="stop", run=waiting_out(standby.stop)),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_release", run=waiting_out(of_own(standby.cancel_release))),
    Step(name="cancel_await", run=waiting_out(of_own(standby.cancel_await))),
    Step(name="cancel_readmit", run=waiting_out(standby.cancel_readmit)),
)
"""What served before serves again, with replicas that have to load their model first where they were gone."""

on_failed = standby.on_failed
