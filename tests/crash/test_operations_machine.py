"""Two workers, a stepped clock, lost heartbeats and a cancel, in any order: a state machine over the store's leases.

A worker here is only as good as its luck: it may stall for any time between any two of its acts, so it acts on what it
believed long ago. The outside refuses writes over a higher fence and forgets nothing.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from provisioner.domain.errors import ConflictError
from provisioner.domain.ids import OperationId
from provisioner.domain.lease import LEASE_SECONDS, Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord
from provisioner.store.interface.operations import Turn
from provisioner.store.sql import SqlStore
from tests.store.examples import EVERY_VERB, SteppedClock, operation
from tests.store.fresh import open_fresh

pytestmark = pytest.mark.timeout(900)  # a pass takes seconds; shrinking a failure to its shortest story takes longer

T = TypeVar("T")


class Leases(RuleBasedStateMachine):
    """The machine. `claimed` are the claims that workers still believe in."""

    claimed = Bundle("claimed")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tenantry-leases-"))
        self.runner = asyncio.Runner()
        self.clock = SteppedClock()
        self.store: SqlStore = self.run(open_fresh(self.folder / "store.sqlite", clock=self.clock))
        self.fences: list[Fence] = []
        self.holder: Fence | None = None
        self.expires_after = 0.0
        self.outside_fence = Fence(0)
        self.outside_writes: list[Fence] = []
        self.completions = 0
        self.is_cancelling = False
        self.interrupted: Fence | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end on the machine's own loop."""
        return self.runner.run(work)

    def is_held_by(self, fence: Fence) -> bool:
        """Whether the model says that this claim still stands: nobody took over and nobody let go."""
        return self.holder == fence

    @initialize()
    def submit(self) -> None:
        """One operation."""
        self.run(self.store.operations.submit(operation()))

    @rule(target=claimed, holder=st.sampled_from(["a", "b"]))
    def claim(self, holder: str) -> Operation | None:
        """A worker looks for work: it gets the operation exactly when nobody holds it, nor may be writing although a
        cancel took it away, with a higher fence."""
        is_taken = self.holder is not None or self.interrupted is not None
        is_free = self.completions == 0 and (not is_taken or self.expires_after <= 0)
        found = self.run(self.store.operations.claim(holder, self.clock.now(), verbs=EVERY_VERB))
        assert (found is not None) == is_free
        if found is None:
            return None
        assert found.lease is not None and found.lease.fence > max(self.fences, default=0)
        self.fences.append(found.lease.fence)
        self.holder, self.expires_after, self.interrupted = found.lease.fence, LEASE_SECONDS, None
        return found

    @rule()
    def cancel(self) -> None:
        """Somebody cancels: whoever holds the operation holds it no more, and it can be claimed once they have stepped
        aside, or their lease is over. Too late, it changes nothing."""
        cancelled = self.store.operations.cancel(OperationId("op-a"), self.clock.now(), actor="ops", request_id="req-9")
        may = self.completions == 0 or self.is_cancelling
        assert self.succeeds(cancelled) == may
        if may and not self.is_cancelling:
            self.is_cancelling, self.interrupted, self.holder = True, self.holder, None

    @rule(seconds=st.sampled_from([0.5, 9, 10, 29.999, 30, 45]))
    def time_passes(self, seconds: float) -> None:
        """No heartbeat comes through meanwhile."""
        self.clock.advance(seconds)
        self.expires_after -= seconds

    @rule(claim=claimed)
    def heartbeat(self, claim: Operation | None) -> None:
        """It succeeds exactly for the holder of an unexpired lease."""
        if claim is None or claim.lease is None:
            return
        may = self.is_held_by(claim.lease.fence) and self.expires_after > 0
        assert self.succeeds(self.store.operations.renew(claim.id, claim.lease.fence, self.clock.now())) == may
        if may:
            self.expires_after = LEASE_SECONDS

    @rule(claim=claimed, is_guarded=st.booleans())
    def write_outside(self, claim: Operation | None, is_guarded: bool) -> None:
        """With the guard only the holder comes as far as the write; without, the fence still refuses the stale one."""
        if claim is None or claim.lease is None:
            return
        fence = claim.lease.fence
        if is_guarded:
            may = self.is_held_by(fence) and self.expires_after > 0
            assert self.succeeds(self.store.operations.renew(claim.id, fence, self.clock.now())) == may
            if not may:
                return
            self.expires_after = LEASE_SECONDS
            assert fence >= self.outside_fence, "the guard let a stale worker through"
        if fence >= self.outside_fence:
            self.outside_fence = fence
            self.outside_writes.append(fence)

    @rule(claim=claimed, value=st.integers())
    def record(self, claim: Operation | None, value: int) -> None:
        """A stale worker's record is refused and changes nothing."""
        if claim is None or claim.lease is None:
            return
        before = self.run(self.store.operations.get(claim.id))
        record = StepRecord(name="place", attempts=1, result={"value": value})
        may = self.is_held_by(claim.lease.fence)
        assert self.succeeds(self.store.operations.record_step(claim.id, claim.lease.fence, record)) == may
        after = self.run(self.store.operations.get(claim.id))
        assert after.steps == ((record,) if may else before.steps)

    @rule(claim=claimed)
    def step_aside(self, claim: Operation | None) -> None:
        """Who was interrupted by a cancel says that it writes nothing any more; of anybody else it is no news."""
        if claim is None or claim.lease is None:
            return
        self.run(self.store.operations.step_aside(claim.id, claim.lease.fence, self.clock.now()))
        if claim.lease.fence == self.interrupted:
            self.interrupted = None

    @rule(claim=consumes(claimed), is_over=st.booleans())
    def release(self, claim: Operation | None, is_over: bool) -> None:
        """Only the holder's turn counts, so an operation ends once, and as cancelled once that was asked."""
        if claim is None or claim.lease is None:
            return
        if self.is_held_by(claim.lease.fence):
            assert (claim.state is OperationState.CANCELLING) == self.is_cancelling
        if claim.state is OperationState.CANCELLING:
            state = OperationState.CANCELLED if is_over else OperationState.CANCELLING
        else:
            state = OperationState.SUCCEEDED if is_over else OperationState.WAITING
        turn = Turn(state=state, next_attempt_at=self.clock.now(), attempts=0)
        may = self.is_held_by(claim.lease.fence)
        released = self.store.operations.release(claim.id, claim.lease.fence, turn, self.clock.now())
        assert self.succeeds(released) == may
        if may:
            self.holder = None
            self.completions += is_over

    def succeeds(self, write: Coroutine[Any, Any, object]) -> bool:
        """Whether the store takes the write; a refusal is a ConflictError."""
        try:
            self.run(write)
        except ConflictError:
            return False
        return True

    @invariant()
    def outside_never_goes_back(self) -> None:
        """The fences of accepted outside writes never fall, and the operation ends at most once."""
        assert self.outside_writes == sorted(self.outside_writes)
        assert self.completions <= 1

    @invariant()
    def store_agrees_with_the_model(self) -> None:
        """The stored lease is that of the holder."""
        if not self.fences:
            return
        stored = self.run(self.store.operations.get(OperationId("op-a")))
        assert (stored.lease.fence if stored.lease else None) == self.holder
        assert stored.state.is_final == (self.completions == 1)
        cancelled = (OperationState.CANCELLING, OperationState.CANCELLED)
        assert (stored.state in cancelled) == self.is_cancelling

    def teardown(self) -> None:
        """Close the store and the loop."""
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)


TestLeases = Leases.TestCase
TestLeases.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
