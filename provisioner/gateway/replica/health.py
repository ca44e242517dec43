"""Whether a replica is well: what its failures, answers and probes make of it. Pure; time comes in as an argument.

A replica is taken out after three failed requests in a row, or three failed probes in a row; the two rows are apart,
since health pages answer where models do not, and models where health pages do not. Three answers that say 5xx may be
one caller's doing, whose requests the engine cannot bear: such a replica is suspect, gets requests only where there is
no other, and a probe with one real request decides at once. One that is out comes back after two good probes and one
real request of its model's kind, and then takes a share of the traffic that grows, so that a cold cache is not hit by
everybody at once. What is not known to be out is in: a snapshot names replicas that were proven. Kept by `choice`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FAILURES_IN_A_ROW = 3
GOOD_PROBES = 2
SERVER_ERROR = "ServerError"
"""Why one is out that answered with a status from 500 on, and failed the probe that followed."""
RETURN_SECONDS = 30.0
"""From its return to its full share."""
SUSPECT_SHARE = 1e-6
"""Of its full share: nothing beside one that is well."""
FIRST_SHARE = 0.1
"""Of its full share, at the moment of its return."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one replica. `out_because` is the CamelCase reason while it is out."""

    failed_requests: int = 0
    failed_probes: int = 0
    """Each in a row."""
    out_because: str | None = None
    good_probes: int = 0
    """In a row, while it is out."""
    returned_at: float | None = None
    """While it takes less than its full share."""

    @property
    def is_out(self) -> bool:
        """Whether it gets no requests."""
        return self.out_because is not None

    @property
    def is_suspect(self) -> bool:
        """Whether so many requests in a row ended in a 5xx that a probe has to decide."""
        return not self.is_out and self.failed_requests >= FAILURES_IN_A_ROW

    @property
    def wants_proof(self) -> bool:
        """Whether one real request decides that it comes back."""
        return self.is_out and self.good_probes >= GOOD_PROBES

    def after_answer(self) -> Health:
        """A customer's request was answered well. One that was sent before the replica went out brings it not back."""
        return replace(self, failed_requests=0) if self.failed_requests else self

    def after_error(self) -> Health:
        """A customer's request was answered with a status from 500 on: the replica lives, and the request may be at
        fault."""
        return self if self.is_out else replace(self, failed_requests=self.failed_requests + 1)

    def after_failure(self, reason: str) -> Health:
        """A customer's request was not answered, or not to the end, and the replica is to blame."""
        if self.is_out:
            return self
        failed = self.failed_requests + 1
        return Health(out_because=reason) if failed >= FAILURES_IN_A_ROW else replace(self, failed_requests=failed)

    def after_good_probe(self) -> Health:
        """A probe found nothing wrong."""
        if self.is_out:
            return replace(self, good_probes=self.good_probes + 1)
        return replace(self, failed_probes=0) if self.failed_probes else self

    def after_failed_probe(self, reason: str) -> Health:
        """A probe, or the real request that was to prove the replica, failed."""
        if self.is_suspect:
            return Health(out_because=SERVER_ERROR)
        failed = self.failed_probes + 1
        is_out = self.is_out or failed >= FAILURES_IN_A_ROW
        return Health(out_because=reason) if is_out else replace(self, failed_probes=failed)

    def after_proof(self, now: float) -> Health:
        """The real request was answered: the replica is back, or is suspect no more."""
        return Health(returned_at=now) if self.is_out else replace(self, failed_requests=0)

    def share(self, now: float) -> float:
        """The part of its full share that it takes: 0 while it is out, 1 while nothing is wrong."""
        if self.is_out:
            return 0.0
        if self.is_suspect:
            return SUSPECT_SHARE
        if self.returned_at is None:
            return 1.0
        gone = max(0.0, now - self.returned_at) / RETURN_SECONDS
        return min(1.0, FIRST_SHARE + (1 - FIRST_SHARE) * gone)

    def at(self, now: float) -> Health:
        """The same at `now`: fully back once its share is whole."""
        return replace(self, returned_at=None) if self.returned_at is not None and self.share(now) >= 1 else self
