"""Changes what an endpoint runs: model, serving parameters, adapters, image, or the version of its tier.

The new revision comes up beside the old one and is proven, then one write switches the route directory to it, then the
old one finishes its requests and goes. Where there is no room for both the old one goes first. A revision that does not
become ready is removed, and what served before serves on. An older request rolls back.
"""

from __future__ import annotations

from provisioner.endpoints import change_arrival, change_departure
from provisioner.endpoints.pool import of_own
from provisioner.endpoints.progress import waiting_out
from provisioner.endpoints.world import World
from provisioner.operations.step import Step

DEADLINE_SECONDS = 4 * 3600.0
"""Weights of hundreds of gigabytes load for an hour, and every step has a bound of its own."""

STEPS: tuple[Step[World], ...] = (
    Step(name="prepare", run=waiting_out(change_arrival.prepare)),
    Step(name="enlarge", run=waiting_out(change_arrival.enlarge)),
    Step(name="make_room", run=waiting_out(change_arrival.make_room)),
    Step(name="deliver", run=waiting_out(of_own(change_arrival.deliver))),
    Step(name="await_revision", run=waiting_out(of_own(change_arrival.await_revision))),
    Step(name="switch", run=waiting_out(change_departure.switch)),
    Step(name="prove", run=waiting_out(change_departure.prove)),
    Step(name="restore", run=waiting_out(change_departure.restore)),
    Step(name="drain", run=waiting_out(change_departure.drain)),
    Step(name="tidy", run=waiting_out(of_own(change_departure.tidy))),
    Step(name="settle", run=waiting_out(change_departure.settle)),
)

CANCEL_STEPS: tuple[Step[World], ...] = (
    Step(name="cancel_restore", run=waiting_out(change_departure.restore)),
    Step(name="cancel_drain", run=waiting_out(change_departure.drain)),
    Step(name="cancel_tidy", run=waiting_out(of_own(change_departure.tidy))),
    Step(name="cancel_settle", run=waiting_out(change_departure.settle)),
)
"""From wherever the change came to, the old revision serves in the end, brought back if it was gone already."""

on_failed = change_departure.on_failed
