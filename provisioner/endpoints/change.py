"""The course of a change: what an endpoint is, what it becomes, and which of the two is to serve in the end. Pure.

Update and scale share it. The first step records it with the operation, since the endpoint's row is switched on the
way: whatever happens later, both sides are known. Whoever wins serves in the end; the other side goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from provisioner.domain.endpoint import Change
from provisioner.domain.operation import Json, Operation, OperationState
from provisioner.domain.plan import EndpointPlan

FIRST_STEP = "prepare"
"""The step that records the course."""

_CHANGE = TypeAdapter(Change)
_FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """`before` serves when the change begins, `after` is wanted. `replicas` of `before` ran then, and `claims` node
    claims were the endpoint's; `parent` is the commit that its branch was at."""

    before: Change
    after: Change
    replicas: int
    claims: int
    parent: str

    @property
    def keeps_pods(self) -> bool:
        """Whether both sides are the same revision, so that no pod is replaced."""
        return self.before.plan.workload == self.after.plan.workload

    @property
    def replaces(self) -> bool:
        """Whether the old revision has to go before the new one comes."""
        rollout = self.after.plan.rollout
        return not self.keeps_pods and rollout is not None and rollout.mode == "replace"

    @property
    def starting(self) -> EndpointPlan:
        """The wanted plan as it is delivered first: a new revision starts with as many replicas as serve now, and comes
        down to what was asked for once it serves."""
        plan = self.after.plan
        if self.keeps_pods:
            return plan
        runtime = plan.runtime
        low = min(max(self.replicas, runtime.min_replicas, 1), runtime.max_replicas)
        return replace(plan, runtime=replace(runtime, min_replicas=low))

    @property
    def is_asleep(self) -> bool:
        """Whether nothing runs, nothing is to be started, and that is as it should be."""
        return self.keeps_pods and self.replicas == 0 and self.after.plan.runtime.min_replicas == 0

    @property
    def surplus_nodes(self) -> int:
        """The nodes that the new revision takes while the old one still has its own."""
        if self.keeps_pods or self.replaces:
            return 0
        capacity, runtime = self.starting.capacity, self.starting.runtime
        return math.ceil(runtime.min_replicas * (capacity.nodes + capacity.burst_nodes) / runtime.max_replicas)

    @property
    def enlarged(self) -> EndpointPlan:
        """The wanted plan with pools that have room for both sides, as long as both are there."""
        plan, old = self.after.plan, self.before.plan.capacity
        nodes, burst = max(plan.capacity.nodes, old.nodes), max(plan.capacity.burst_nodes, old.burst_nodes)
        if "burstNodes" in plan.placement.parameters:
            burst += self.surplus_nodes
        else:
            nodes += self.surplus_nodes
        return _with_nodes(plan, nodes=nodes, burst_nodes=burst)

    @property
    def claimed(self) -> EndpointPlan:
        """The wanted plan with the nodes that the change will have claimed at most, for the project's quota."""
        if self.keeps_pods:
            return self.after.plan
        nodes = max(self.claims, self.after.plan.capacity.nodes)
        return _with_nodes(self.after.plan, nodes=nodes, burst_nodes=self.surplus_nodes)

    def as_json(self) -> dict[str, Json]:
        """The result of the first step."""
        return {
            "before": _CHANGE.dump_python(self.before, mode="json"),
            "after": _CHANGE.dump_python(self.after, mode="json"),
            "replicas": self.replicas,
            "claims": self.claims,
            "parent": self.parent,
        }


def course_of(operation: Operation) -> Course | None:
    """The course that the first step recorded; None before it did."""
    told: Mapping[str, Any] = operation.result(FIRST_STEP)
    if not told:
        return None
    sides = {name: _CHANGE.validate_python(told[name]) for name in ("before", "after")}
    return Course(**sides, replicas=told["replicas"], claims=told["claims"], parent=told["parent"])


def failure(reason: str, message: str) -> dict[str, Json]:
    """The result of a step that found that the change cannot come to its end: the steps that follow undo it."""
    return {_FAILURE: {"reason": reason, "message": message}}


def failure_of(operation: Operation) -> tuple[str, str] | None:
    """Reason and message of the failure that a step found, if one did."""
    found = (record.result[_FAILURE] for record in operation.steps if record.result and _FAILURE in record.result)
    told = next(found, None)
    return (str(told["reason"]), str(told["message"])) if told else None


def is_undone(operation: Operation) -> bool:
    """Whether the old side is to serve in the end: the change failed, or somebody cancelled it."""
    return operation.state is OperationState.CANCELLING or failure_of(operation) is not None


def sides(operation: Operation, course: Course) -> tuple[Change, Change]:
    """The side that is to serve in the end, and the one that goes."""
    pair = (course.after, course.before)
    return (pair[1], pair[0]) if is_undone(operation) else pair


def _with_nodes(plan: EndpointPlan, *, nodes: int, burst_nodes: int) -> EndpointPlan:
    told = {"nodes": str(nodes), "burstNodes": str(burst_nodes)}
    parameters = {name: told.get(name, value) for name, value in plan.placement.parameters.items()}
    return replace(
        plan,
        placement=replace(plan.placement, parameters=parameters),
        capacity=replace(plan.capacity, nodes=nodes, burst_nodes=burst_nodes),
    )
