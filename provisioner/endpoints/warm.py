"""Wakes an endpoint that sleeps, or brings back one that was drained: a replica runs, is proven, and takes traffic.

One that is awake is left as it is, at once. `Ready` is said before the last proof, since the route directory names
replicas of Ready endpoints alone; a replica is ready and probed by then.
"""

from __future__ import annotations

from provisioner.endpoints import standby
from provisioner.endpoints.pool import of_own
from provisioner.endpoints.progress import waiting_out
from provisioner.endpoints.world import World
from provisioner.operations.step import Step

DEADLINE_SECONDS = 4 * 3600.0
"""As for an update: weights of hundreds of gigabytes load for an hour."""

STEPS: tuple[Step[World], ...] = (
    Step(name="assess", run=waiting_out(standby.assess)),
    Step(name="hold", run=waiting_out(of_own(standby.hold))),
    Step(name="await_replicas", run=waiting_out(of_own(standby.await_replicas))),
    Step(name="readmit", run=waiting_out(standby.readmit)),
    Step(name="prove", run=waiting_out(standby.prove)),
    Step(name="release", run=waiting_out(of_own(standby.release))),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_withdraw", run=waiting_out(standby.cancel_withdraw)),
    Step(name="cancel_stop", run=waiting_out(standby.cancel_stop)),
    Step(name="cancel_release", run=waiting_out(of_own(standby.cancel_release))),
)
"""What was drained is drained again; what slept may sleep."""

on_failed = standby.on_failed
