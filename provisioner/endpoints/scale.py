"""Changes the bounds on an endpoint's replicas, and nothing of its pods.

What is delivered differs in the scaler's bounds and in what stands once per replica. Replicas beyond a lower bound
leave the route directory before they go.
"""

from __future__ import annotations

from provisioner.endpoints import change_arrival, change_departure
from provisioner.endpoints.progress import waiting_out
from provisioner.endpoints.world import World
from provisioner.operations.step import Step

DEADLINE_SECONDS = 4 * 3600.0
"""As for an update: another replica loads the same weights."""

STEPS: tuple[Step[World], ...] = (
    Step(name="prepare", run=waiting_out(change_arrival.prepare)),
    Step(name="enlarge", run=waiting_out(change_arrival.enlarge)),
    Step(name="make_room", run=waiting_out(change_arrival.make_room)),
    Step(name="deliver", run=waiting_out(change_arrival.deliver)),
    Step(name="await_revision", run=waiting_out(change_arrival.await_revision)),
    Step(name="switch", run=waiting_out(change_departure.switch)),
    Step(name="restore", run=waiting_out(change_departure.restore)),
    Step(name="tidy", run=waiting_out(change_departure.tidy)),
    Step(name="settle", run=waiting_out(change_departure.settle)),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_restore", run=waiting_out(change_departure.restore)),
    Step(name="cancel_tidy", run=waiting_out(change_departure.tidy)),
    Step(name="cancel_settle", run=waiting_out(change_departure.settle)),
)
"""The bounds of before stand again."""

on_failed = change_departure.on_failed
