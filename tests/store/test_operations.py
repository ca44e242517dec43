"""Operations in the store: submitting, claiming, fencing, letting go."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from provisioner.domain.endpoint import Phase
from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError
from provisioner.domain.ids import EndpointId, OperationId
from provisioner.domain.lease import LEASE_SECONDS, Fence
from provisioner.domain.operation import Operation, OperationState, StepRecord, Verb
from provisioner.store.interface.operations import Turn
from provisioner.store.sql import SqlStore, open_store
from tests.store.examples import (
    EVERY_VERB,
    NOON,
    POOLED,
    SteppedClock,
    claim,
    delete_operation,
    endpoint,
    operation,
    tenant,
    tenant_operation,
)

pytestmark = POOLED

SUCCEEDED = Turn(state=OperationState.SUCCEEDED, next_attempt_at=NOON, attempts=0)


async def make_tenant(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())
    id_, fence = await claim(store, clock)
    await store.tenants.save(replace(tenant(), ready=True), operation=id_, fence=fence)
    await store.operations.release(id_, fence, SUCCEEDED, clock.now())


async def test_submitted_operation_is_pending_before_any_worker_runs(store: SqlStore) -> None:
    """Ledger: OPS-02"""
    submitted = await store.operations.submit(operation())
    assert submitted.is_new
    stored = await store.operations.get(OperationId("op-a"))
    assert stored == operation()
    assert list(stored.request["serving"]) == ["z", "a"], "the order of keys is kept"


async def test_same_idempotency_key_returns_the_operation_that_exists(store: SqlStore) -> None:
    """Ledger: OPS-01"""
    await store.operations.submit(operation())
    again = await store.operations.submit(operation(id=OperationId("op-b"), idempotency_key="key of op-a"))
    assert (again.is_new, again.operation.id) == (False, "op-a")
    assert len(await store.operations.list()) == 1


async def test_idempotency_key_of_another_tenant_is_another_key(store: SqlStore) -> None:
    await store.operations.submit(operation())
    other = operation(id=OperationId("op-b"), tenant="globex", idempotency_key="key of op-a")
    assert (await store.operations.submit(other)).is_new


async def test_reused_idempotency_key_with_another_request_is_rejected(store: SqlStore) -> None:
    await store.operations.submit(operation())
    with pytest.raises(RejectedError) as refused:
        await store.operations.submit(
            operation(id=OperationId("op-b"), idempotency_key="key of op-a", request_digest="x")
        )
    assert refused.value.reason == "IdempotencyKeyReused"


async def test_idempotency_key_expires_after_seven_days(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-01"""
    await store.operations.submit(operation())
    await store.operations.release(*await claim(store, clock), SUCCEEDED, clock.now())

    def again(id_: str, days: float) -> Operation:
        at = NOON + timedelta(days=days)
        return operation(id=OperationId(id_), idempotency_key="key of op-a", request_digest="another", created_at=at)

    with pytest.raises(RejectedError):
        await store.operations.submit(again("op-b", 6.999))
    assert (await store.operations.submit(again("op-b", 7))).is_new
    assert not (await store.operations.submit(again("op-c", 8))).is_new
    assert {one.id for one in await store.operations.list()} == {"op-a", "op-b"}


async def test_concurrent_submits_with_one_key_make_one_operation(store: SqlStore) -> None:
    """Ledger: OPS-01"""
    requests = [operation(id=OperationId(f"op-{n}"), idempotency_key="one") for n in range(8)]
    answers = await asyncio.gather(*(store.operations.submit(request) for request in requests))
    assert Counter(answer.is_new for answer in answers) == {True: 1, False: 7}
    assert len({answer.operation.id for answer in answers}) == 1


async def test_second_open_operation_on_a_subject_conflicts_and_names_the_first(store: SqlStore) -> None:
    await store.operations.submit(operation())
    with pytest.raises(ConflictError, match="op-a") as refused:
        await store.operations.submit(operation(id=OperationId("op-b")))
    assert refused.value.reason == "OperationInProgress"


async def test_subject_is_free_again_when_its_operation_is_over(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation())
    await store.operations.release(*await claim(store, clock), SUCCEEDED, clock.now())
    assert (await store.operations.submit(operation(id=OperationId("op-b")))).is_new


async def test_taken_endpoint_name_is_rejected_and_nothing_is_stored(store: SqlStore, clock: SteppedClock) -> None:
    await make_tenant(store, clock)
    await store.operations.submit(operation(), endpoint=endpoint())
    second = endpoint(id=EndpointId("ep-b"))
    with pytest.raises(RejectedError) as refused:
        await store.operations.submit(operation(id=OperationId("op-b"), subject="ep-b"), endpoint=second)
    assert refused.value.reason == "NameTaken"
    with pytest.raises(NotFoundError):
        await store.operations.get(OperationId("op-b"))


async def test_endpoint_of_an_unknown_tenant_is_not_found(store: SqlStore) -> None:
    with pytest.raises(NotFoundError) as refused:
        await store.operations.submit(operation(), endpoint=endpoint())
    assert refused.value.reason == "TenantUnknown"
    assert await store.operations.list() == []


async def test_taken_tenant_name_is_rejected_once_the_tenant_is_ready(store: SqlStore, clock: SteppedClock) -> None:
    await make_tenant(store, clock)
    with pytest.raises(RejectedError) as refused:
        await store.operations.submit(tenant_operation(id=OperationId("op-u")), tenant=tenant())
    assert refused.value.reason == "NameTaken"


async def test_tenant_whose_creation_failed_may_be_submitted_again(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(tenant_operation(), tenant=tenant())
    failed = Turn(state=OperationState.FAILED, next_attempt_at=NOON, attempts=0, reason="Rejected")
    await store.operations.release(*await claim(store, clock), failed, clock.now())
    again = tenant(tiers=("shared",), operation=OperationId("op-u"))
    assert (await store.operations.submit(tenant_operation(id=OperationId("op-u")), tenant=again)).is_new
    assert await store.tenants.find("acme") == again


async def test_delete_ends_an_open_create_and_its_worker_can_write_no_more(
    store: SqlStore, clock: SteppedClock
) -> None:
    await make_tenant(store, clock)
    await store.operations.submit(operation(), endpoint=endpoint())
    id_, fence = await claim(store, clock)
    deleting = endpoint(phase=Phase.DELETING, operation=OperationId("op-d"))
    await store.operations.submit(delete_operation(), endpoint=deleting)
    create = await store.operations.get(id_)
    assert (create.state, create.reason, create.lease) == (OperationState.CANCELLED, "Superseded", None)
    with pytest.raises(ConflictError):
        await store.endpoints.save(endpoint(phase=Phase.READY), operation=id_, fence=fence)
    with pytest.raises(ConflictError):
        await store.operations.renew(id_, fence, clock.now())
    assert (await store.endpoints.get(EndpointId("ep-a"))).phase is Phase.DELETING


async def test_delete_of_an_endpoint_that_is_gone_does_not_bring_it_back(store: SqlStore) -> None:
    with pytest.raises(NotFoundError):
        await store.operations.submit(delete_operation(), endpoint=endpoint(phase=Phase.DELETING))
    assert await store.endpoints.list() == []
    assert await store.operations.list() == []


async def test_claim_grants_a_lease_with_a_fence_that_only_grows(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-04"""
    await store.operations.submit(operation())
    await store.operations.submit(operation(id=OperationId("op-b"), subject="ep-b"))
    first = await store.operations.claim("a", clock.now(), verbs=EVERY_VERB)
    second = await store.operations.claim("b", clock.now(), verbs=EVERY_VERB)
    assert first and second and first.lease and second.lease
    assert (first.state, first.attempts, first.lease.holder) == (OperationState.RUNNING, 1, "a")
    assert first.lease.expires_at == NOON + timedelta(seconds=LEASE_SECONDS) == first.next_attempt_at
    assert second.lease.fence > first.lease.fence
    assert await store.operations.claim("c", clock.now(), verbs=EVERY_VERB) is None
    assert await store.operations.get(first.id) == first


async def test_expired_lease_is_taken_over_with_higher_token(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-07"""
    await store.operations.submit(operation())
    id_, stale = await claim(store, clock, "a")
    clock.advance(LEASE_SECONDS - 0.001)
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None
    clock.advance(0.001)
    _, fence = await claim(store, clock, "b")
    assert fence > stale
    for write in (
        store.operations.renew(id_, stale, clock.now()),
        store.operations.record_step(id_, stale, StepRecord(name="place")),
        store.operations.release(id_, stale, SUCCEEDED, clock.now()),
        store.endpoints.remove(EndpointId("ep-a"), operation=id_, fence=stale),
    ):
        with pytest.raises(ConflictError):
            await write
    assert (await store.operations.get(id_)).steps == ()


async def test_fences_grow_across_a_restart(store: SqlStore, url: str, clock: SteppedClock) -> None:
    await store.operations.submit(operation())
    _, before = await claim(store, clock)
    clock.advance(LEASE_SECONDS)
    again = await open_store(url, clock=clock)
    _, after = await claim(again, clock)
    await again.close()
    assert after > before


async def test_renewed_lease_is_not_taken_over(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-04"""
    await store.operations.submit(operation())
    id_, fence = await claim(store, clock)
    await store.operations.renew(id_, fence, clock.advance(LEASE_SECONDS - 1))
    clock.advance(LEASE_SECONDS - 1)
    assert await store.operations.claim("b", clock.now(), verbs=EVERY_VERB) is None
    lease = (await store.operations.get(id_)).lease
    assert lease and lease.renewed_at == NOON + timedelta(seconds=LEASE_SECONDS - 1)


async def test_expired_lease_cannot_be_renewed(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation())
    id_, fence = await claim(store, clock)
    with pytest.raises(ConflictError) as refused:
        await store.operations.renew(id_, fence, clock.advance(LEASE_SECONDS))
    assert refused.value.reason == "LeaseLost"


async def test_waiting_operation_is_claimed_when_it_is_due_and_not_before(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation())
    later = NOON + timedelta(seconds=5)
    turn = Turn(state=OperationState.WAITING, next_attempt_at=later, attempts=2, reason="NoNodes", message="none yet")
    await store.operations.release(*await claim(store, clock), turn, clock.now())
    assert await store.operations.claim("b", clock.advance(4.999), verbs=EVERY_VERB) is None
    claimed = await store.operations.claim("b", clock.advance(0.001), verbs=EVERY_VERB)
    assert claimed and (claimed.attempts, claimed.reason, claimed.message) == (3, "NoNodes", "none yet")


@pytest.mark.parametrize("seconds", [-3600, 3600])
async def test_clock_that_jumps_neither_loses_an_operation_nor_lets_two_write(
    store: SqlStore, clock: SteppedClock, seconds: float
) -> None:
    """Ledger: OPS-07"""
    await store.operations.submit(operation())
    await store.operations.submit(operation(id=OperationId("op-b"), subject="ep-b"))
    waiting, fence = await claim(store, clock)
    later = Turn(state=OperationState.WAITING, next_attempt_at=NOON + timedelta(seconds=60), attempts=0)
    await store.operations.release(waiting, fence, later, clock.now())
    running, stale = await claim(store, clock)
    clock.advance(seconds)
    taken = dict([await claim(store, clock, "b"), await claim(store, clock, "b")])
    assert set(taken) == {waiting, running}
    assert await store.operations.claim("c", clock.now(), verbs=EVERY_VERB) is None
    for write in (
        store.operations.renew(running, stale, clock.now()),
        store.operations.record_step(running, stale, StepRecord(name="place")),
    ):
        with pytest.raises(ConflictError):
            await write
    for id_, current in taken.items():
        await store.operations.renew(id_, current, clock.now())
        await store.operations.release(id_, current, SUCCEEDED, clock.now())


async def test_operation_that_is_due_longest_comes_first(store: SqlStore, clock: SteppedClock) -> None:
    for number, due in enumerate([3, 1, 2]):
        moment = NOON + timedelta(seconds=due)
        late = operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}", next_attempt_at=moment)
        await store.operations.submit(late)
    clock.advance(10)
    assert [(await claim(store, clock))[0] for _ in range(3)] == ["op-1", "op-2", "op-0"]


async def test_several_are_claimed_at_once_each_with_a_fence_of_its_own(store: SqlStore, clock: SteppedClock) -> None:
    """Ledger: OPS-03"""
    for number in range(5):
        await store.operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}"))
    id_, fence = await claim(store, clock)
    await store.operations.record_step(id_, fence, StepRecord(name="place"))
    clock.advance(LEASE_SECONDS)
    found: list[Operation] = []
    while some := await store.operations.claim_several("a", clock.now(), verbs=EVERY_VERB, limit=3):
        assert len(some) <= 3
        found += [one for one in some if isinstance(one, Operation)]
    assert sorted(one.id for one in found) == [f"op-{number}" for number in range(5)]
    assert len({one.lease.fence for one in found if one.lease} | {fence}) == 6
    assert [one.steps for one in found if one.steps] == [(StepRecord(name="place"),)]


async def test_worker_claims_only_the_verbs_it_knows(store: SqlStore, clock: SteppedClock) -> None:
    await store.operations.submit(operation())
    assert await store.operations.claim("a", clock.now(), verbs=[Verb.TENANT_CREATE]) is None
    assert await store.operations.claim("a", clock.now(), verbs=[Verb.ENDPOINT_CREATE]) is not None


async def test_recorded_steps_come_back_in_order_and_a_done_one_renews_the_attempts(
    store: SqlStore, clock: SteppedClock
) -> None:
    await store.operations.submit(operation())
    waiting = Turn(state=OperationState.WAITING, next_attempt_at=NOON, attempts=3)
    await store.operations.release(*await claim(store, clock), waiting, clock.now())
    id_, fence = await claim(store, clock)
    begun = StepRecord(name="place", attempts=4, started_at=NOON)
    await store.operations.record_step(id_, fence, begun)
    assert (await store.operations.get(id_)).attempts == 4
    done = replace(begun, finished_at=clock.advance(1), result={"commit": "abc", "empty": {}})
    await store.operations.record_step(id_, fence, done)
    await store.operations.record_step(id_, fence, StepRecord(name="await_ready", started_at=clock.now()))
    stored = await store.operations.get(id_)
    assert stored.steps == (done, StepRecord(name="await_ready", started_at=clock.now()))
    assert stored.attempts == 1
    assert stored.updated_at == clock.now()


async def test_list_shows_the_newest_first_of_one_tenant_with_their_steps(store: SqlStore, clock: SteppedClock) -> None:
    for number in range(3):
        at = NOON + timedelta(seconds=number)
        await store.operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}", created_at=at))
    await store.operations.submit(operation(id=OperationId("op-x"), tenant="globex"))
    id_, fence = await claim(store, clock)
    await store.operations.record_step(id_, fence, StepRecord(name="place"))
    listed = await store.operations.list(tenant="acme", limit=2)
    assert [one.id for one in listed] == ["op-2", "op-1"]
    everything = {one.id: one.steps for one in await store.operations.list()}
    assert len(everything) == 4 and everything[id_] == (StepRecord(name="place"),)


async def test_eight_workers_run_each_of_a_hundred_operations_once(url: str, clock: SteppedClock) -> None:
    """Ledger: OPS-03"""
    stores = [await open_store(url, clock=clock) for _ in range(2)]
    for number in range(100):
        await stores[0].operations.submit(operation(id=OperationId(f"op-{number}"), subject=f"ep-{number}"))
    claimed: Counter[str] = Counter()
    fences: set[Fence] = set()

    async def work(store: SqlStore, holder: str) -> None:
        while one := await store.operations.claim(holder, clock.now(), verbs=EVERY_VERB):
            assert one.lease
            claimed[one.id] += 1
            fences.add(one.lease.fence)
            await store.operations.release(one.id, one.lease.fence, SUCCEEDED, clock.now())

    await asyncio.gather(*(work(stores[number % 2], f"worker-{number}") for number in range(8)))
    assert set(claimed.values()) == {1} and len(claimed) == len(fences) == 100
    for store in stores:
        await store.close()
