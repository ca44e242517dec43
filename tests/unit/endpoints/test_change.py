"""What a change will take, reckoned from both of its sides."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from provisioner.domain.endpoint import Change
from provisioner.domain.operation import OperationState, StepRecord
from provisioner.domain.plan import EndpointPlan, Rollout
from provisioner.endpoints.change import FIRST_STEP, Course, course_of, failure, failure_of, is_undone, sides
from tests.store.examples import NOON, endpoint, operation, plan
from tests.unit.endpoints.changes import another, bounds


def course(after: Change, *, replicas: int = 1, claims: int = 1) -> Course:
    before = Change(request=endpoint().request, plan=plan())
    return Course(before=before, after=after, replicas=replicas, claims=claims, parent="0" * 40)


def sized(change: Change, *, nodes: int, burst: int, high: int, is_dynamic: bool) -> Change:
    """The change with pools of these sizes and at most `high` replicas."""
    made = change.plan
    names = {"nodes": str(nodes)} | ({"burstNodes": str(burst)} if is_dynamic else {})
    wanted: EndpointPlan = replace(
        made,
        placement=replace(made.placement, parameters={**made.placement.parameters, **names}),
        capacity=replace(made.capacity, nodes=nodes, burst_nodes=burst),
        runtime=replace(made.runtime, max_replicas=high),
    )
    return replace(change, plan=wanted)


def pools(planned: EndpointPlan) -> dict[str, str]:
    told = planned.placement.parameters
    return {name: told[name] for name in ("nodes", "burstNodes") if name in told}


def test_record_of_a_course_is_json_that_reads_back() -> None:
    made = course(another())
    stored = json.loads(json.dumps(made.as_json()))
    record = StepRecord(name=FIRST_STEP, finished_at=NOON, result=stored)
    assert course_of(operation(steps=(record,))) == made
    assert course_of(operation()) is None


@pytest.mark.parametrize(
    ("replicas", "nodes", "burst", "wanted"),
    [
        (1, 1, 3, {"nodes": "1", "burstNodes": "4"}),
        (3, 1, 3, {"nodes": "1", "burstNodes": "6"}),
        (3, 4, None, {"nodes": "7"}),
        (4, 2, None, {"nodes": "4"}),
    ],
)
def test_pools_grow_by_the_nodes_of_replicas_that_start_beside_the_old_ones(
    replicas: int, nodes: int, burst: int | None, wanted: dict[str, str]
) -> None:
    change = sized(another(), nodes=nodes, burst=burst or 0, high=4, is_dynamic=burst is not None)
    assert pools(course(change, replicas=replicas).enlarged) == wanted


def test_nothing_grows_where_one_revision_replaces_the_other_or_no_pod_is_made() -> None:
    instead = replace(
        another(), plan=replace(another().plan, rollout=Rollout(mode="replace", gap_seconds=300, reason=""))
    )
    assert course(instead).enlarged.placement == plan().placement
    assert course(bounds(1, 2)).enlarged.placement == plan().placement


def test_new_revision_starts_with_what_runs_within_its_bounds() -> None:
    """Ledger: LIF-08"""

    def low(**given: Any) -> int:
        return course(another(**given.get("runtime", {})), replicas=given["replicas"]).starting.runtime.min_replicas

    assert low(replicas=2) == 2
    assert low(replicas=0) == 1
    assert low(replicas=5) == 2
    assert low(replicas=1, runtime={"min_replicas": 2}) == 2


def test_side_that_serves_in_the_end_is_the_old_one_after_a_failure_and_in_a_cancel() -> None:
    made = course(another())
    found = StepRecord(name="await_revision", finished_at=NOON, result=failure("LoadingModel", "too long"))
    failed, cancelled = operation(steps=(found,)), operation(state=OperationState.CANCELLING)
    assert sides(operation(), made) == (made.after, made.before)
    assert sides(failed, made) == sides(cancelled, made) == (made.before, made.after)
    assert (failure_of(failed), failure_of(cancelled)) == (("LoadingModel", "too long"), None)
    assert is_undone(failed) and is_undone(cancelled) and not is_undone(operation())
