"""The trees that a change puts on the endpoint's branch: both revisions side by side, then the one that stays.

What stands on the branch is taken from the branch, never rendered anew: a template that changed in between would
replace pods that serve. Pushes compare-and-swap the branch, and a repeated one makes the same commit.
"""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.delivery.interface import Commit
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.endpoints.change import Course
from provisioner.endpoints.world import EndpointAttempt, World

Tree = Mapping[str, bytes]


async def head_of(world: World, plan: EndpointPlan) -> str:
    """The commit that the endpoint's branch is at. RejectedError (`BranchMissing`) where there is none."""
    head = await world.delivery.head(plan.serving_id)
    if head is None:
        raise RejectedError(
            f"reading the delivery repository: it has no branch: {plan.serving_id}",
            reason="BranchMissing",
            hint="somebody removed it; put it back from a copy of the repository, or create the endpoint anew",
        )
    return head


async def push_both(attempt: EndpointAttempt, course: Course, *, parent: str) -> str:
    """Put both revisions on the branch, the new one's content where they share an object; or, where no pod is replaced,
    what is wanted. The commit: `parent` where it holds them already."""
    world, plan = attempt.world, course.after.plan
    before = await world.delivery.files(plan.endpoint, course.parent)
    if course.keeps_pods:
        tree = keep_pods(world, world.pack.runtime_tree(plan), before, plan)
    else:
        tree = {**before, **world.pack.runtime_tree(course.starting, beside=course.before.plan)}
    is_there = await world.delivery.files(plan.endpoint, parent) == tree
    return parent if is_there else await _push(attempt, plan, tree, parent=parent)


async def push_before(attempt: EndpointAttempt, course: Course) -> str:
    """Put on the branch what it held before the change. The commit.

    It moves the branch in any case: the late push of a worker that lost its lease must find it moved.
    """
    world, plan = attempt.world, course.before.plan
    tree = await world.delivery.files(plan.endpoint, course.parent)
    head = await head_of(world, plan)
    is_there = head != course.parent and await world.delivery.files(plan.endpoint, head) == tree
    return head if is_there else await _push(attempt, plan, tree, parent=head)


async def push_after(attempt: EndpointAttempt, course: Course, *, delivered: str) -> str:
    """Put on the branch what is wanted and nothing else; `delivered` is the commit of both sides. The commit."""
    world, plan = attempt.world, course.after.plan
    both = await world.delivery.files(plan.endpoint, delivered)
    tree = keep_pods(world, world.pack.runtime_tree(plan), both, plan)
    head = await head_of(world, plan)
    is_there = await world.delivery.files(plan.endpoint, head) == tree
    return head if is_there else await _push(attempt, plan, tree, parent=head)


def keep_pods(world: World, rendered: Tree, delivered: Tree, plan: EndpointPlan) -> Tree:
    """`rendered`, with the files that make pods as they were delivered, where they were."""
    kept = {path: delivered[path] for path in world.pack.workload_files(plan) if path in delivered}
    return {**rendered, **kept}


async def _push(attempt: EndpointAttempt, plan: EndpointPlan, tree: Tree, *, parent: str) -> str:
    operation = attempt.operation
    commit = Commit(
        branch=plan.endpoint,
        files=tree,
        parent=parent,
        message=f"{operation.verb} {plan.tenant}/{plan.name}: {attempt.step}\n\nOperation: {operation.id}\n",
        at=operation.created_at,
    )
    await attempt.guard()
    return await attempt.world.delivery.push(commit)
