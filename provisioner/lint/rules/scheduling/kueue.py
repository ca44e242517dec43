"""Kueue: workloads whose queue leads nowhere or lacks what they ask for.

Sources: Kueue documentation, "Cluster Queue", "Local Queue", "Resource Flavor".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import amount, plain, pod_total
from provisioner.lint.joins.scaling import pods_made_by
from provisioner.lint.joins.selectors import NAMESPACE_NAME, namespace_labels, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, text, whole
from provisioner.lint.world import Object, PodTemplate, World

_QUEUE = "kueue.x-k8s.io/queue-name"


def _queued(world: World) -> Iterator[tuple[PodTemplate, str]]:
    for pod in world.pods:
        name = pod.owner.labels.get(_QUEUE) or pod.labels.get(_QUEUE)
        if name and not has_hole(name):
            yield pod, name


@rule("kueue-queue-missing", Severity.ERROR)
def kueue_queue_missing(world: World) -> Iterator[Hit]:
    """A workload names a LocalQueue that its namespace does not have, so it is never admitted.

    Kueue keeps the workload suspended and only says so in its Workload object: `LocalQueue doesn't exist`.
    """
    names = [queue.name for queue in world.of_kind("LocalQueue")]
    for pod, name in _queued(world):
        if names and world.find("LocalQueue", name, namespace=pod.namespace) is None:
            near = nearest_name(name, names)
            message = f"queueing workload: its namespace has no queue {shown(name)}"
            fix = f"did you mean `{near}`?" if near and near != name else "add a LocalQueue to the namespace"
            yield Hit(at=pod.owner, path=("metadata", "labels", _QUEUE), message=message, fix=fix)


@rule("kueue-cluster-queue-missing", Severity.ERROR)
def kueue_cluster_queue_missing(world: World) -> Iterator[Hit]:
    """A LocalQueue leads to a ClusterQueue that the folder does not hold, though it holds others.

    The LocalQueue stays inactive with `ClusterQueueDoesNotExist`, and its workloads stay suspended.
    """
    names = [queue.name for queue in world.of_kind("ClusterQueue")]
    for queue in world.of_kind("LocalQueue"):
        name = text(queue.value, "spec", "clusterQueue")
        if names and name and name not in names:
            near = nearest_name(name, names)
            message = f"queueing workload: there is no cluster queue {shown(name)}"
            fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(names)}"
            yield Hit(at=queue, path=("spec", "clusterQueue"), message=message, fix=fix)


@rule("kueue-queue-admits-nobody", Severity.ERROR)
def kueue_queue_admits_nobody(world: World) -> Iterator[Hit]:
    """A ClusterQueue has no namespaceSelector, so it admits workloads of no namespace.

    What is left out selects nothing; `namespaceSelector: {}` selects every namespace. Workloads stay suspended.
    """
    for queue in world.of_kind("ClusterQueue"):
        if look(queue.value, "spec") is not None and look(queue.value, "spec", "namespaceSelector") is None:
            message = f"admitting workloads: no namespace may use the queue: {shown(queue.name)}"
            yield Hit(at=queue, path=("spec",), message=message, fix="add namespaceSelector: {} or a narrower one")


@rule("kueue-namespace-not-selected", Severity.ERROR)
def kueue_namespace_not_selected(world: World) -> Iterator[Hit]:
    """A LocalQueue leads to a ClusterQueue whose namespaceSelector does not select the queue's namespace.

    Workloads of the namespace stay suspended: `Workload namespace doesn't match ClusterQueue selector`. Said where the
    folder shows the namespace and its labels, or its name alone decides.
    """
    for queue in world.of_kind("LocalQueue"):
        name = text(queue.value, "spec", "clusterQueue") or ""
        targets = [one for one in world.of_kind("ClusterQueue") if one.name == name]
        spaces = [namespace_labels(one) for one in world.of_kind("Namespace") if one.name == queue.namespace]
        chosen = [selector(look(one.value, "spec", "namespaceSelector")) for one in targets]
        known = [one for one in chosen if one is not None and one.is_certain]
        if not spaces and queue.namespace and all(one.keys <= {NAMESPACE_NAME} for one in known):
            spaces = [{NAMESPACE_NAME: queue.namespace}]  # which every namespace has
        if not spaces or not known or len(known) < len(chosen):
            continue
        if not any(one.matches(space) for one in known for space in spaces):
            message = f"queueing workload: {name} takes none of namespace {queue.namespace}: {shown(str(known[0]))}"
            fix = f"label the namespace so, or widen namespaceSelector of {name}"
            yield Hit(at=queue, path=("spec", "clusterQueue"), message=message, fix=fix)


@rule("kueue-flavor-missing", Severity.ERROR)
def kueue_flavor_missing(world: World) -> Iterator[Hit]:
    """A ClusterQueue names a resource flavor that the folder does not hold, so the queue stays inactive.

    A ClusterQueue is active only when all its flavors exist (`FlavorNotFound`); until then nothing is admitted.
    """
    names = [flavor.name for flavor in world.of_kind("ResourceFlavor")]
    for queue in world.of_kind("ClusterQueue"):
        for path, group in items(queue.value, "spec", "resourceGroups"):
            for place, flavor in items(group, "flavors"):
                name = text(flavor, "name")
                if names and name and name not in names:
                    near = nearest_name(name, names)
                    message = f"queueing workload: there is no resource flavor {shown(name)}"
                    fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(names)}"
                    yield Hit(at=queue, path=(*path, *place, "name"), message=message, fix=fix)


def _cluster_queue(world: World, pod: PodTemplate, name: str) -> Object | None:
    local = world.find("LocalQueue", name, namespace=pod.namespace)
    return world.find("ClusterQueue", text(local.value, "spec", "clusterQueue") or "") if local else None


@rule("kueue-quota-too-small", Severity.ERROR)
def kueue_quota_too_small(world: World) -> Iterator[Hit]:
    """A pod asks for a resource that its ClusterQueue does not cover, or for more than it ever lends one.

    Such a workload is never admitted. Queues of a cohort may borrow and are only checked for covered resources.
    """
    for pod, name in _queued(world):
        queue = _cluster_queue(world, pod, name)
        groups = [group for _, group in items(queue.value, "spec", "resourceGroups")] if queue else []
        if queue is None or not groups:
            continue
        covered = {item for group in groups for _, item in items(group, "coveredResources") if isinstance(item, str)}
        for resource, value in pod_total(pod).items():
            most = [
                amount(look(entry, "nominalQuota"))
                for group in groups
                for _, flavor in items(group, "flavors")
                for _, entry in items(flavor, "resources")
                if text(entry, "name") == resource
            ]
            largest = max((item for item in most if item is not None), default=None)
            in_cohort = text(queue.value, "spec", "cohort") or text(queue.value, "spec", "cohortName")
            too_much = largest is not None and value > largest and not in_cohort
            if resource not in covered or too_much:
                fact = f"gives at most {plain(largest)}" if too_much and largest is not None else "does not cover it"
                message = (
                    f"queueing workload: it asks for {plain(value)} of {resource}, {queue.title} {fact}: {shown(name)}"
                )
                fix = f"cover {resource} in the queue's resourceGroups with enough nominalQuota"
                yield Hit(at=pod.owner, path=("metadata", "labels", _QUEUE), message=message, fix=fix)


@rule("kueue-quota-below-group", Severity.ERROR)
def kueue_quota_below_group(world: World) -> Iterator[Hit]:
    """A group of a LeaderWorkerSet, or a Job, asks for more than its ClusterQueue has in all flavors together.

    Kueue admits the pods of a group, or all that a Job runs at a time, together or not at all, so they stay gated for
    ever. Queues of a cohort may borrow, up to their borrowingLimit; without one they are left alone.
    """
    for owner, name, group in _groups(world):
        local = world.find("LocalQueue", name, namespace=owner.namespace)
        queue = world.find("ClusterQueue", text(local.value, "spec", "clusterQueue") or "") if local else None
        if queue is None:
            continue
        for resource, value in group.items():
            quota = _quota(queue, resource)
            if quota is not None and value > quota:
                message = (
                    f"queueing group: it asks for {plain(value)} of {resource}, {queue.title} has `{plain(quota)}`"
                )
                fix = f"raise nominalQuota of {resource} above it, or put the queue into a cohort to borrow from"
                yield Hit(at=owner, path=("metadata", "labels", _QUEUE), message=message, fix=fix)


def _groups(world: World) -> Iterator[tuple[Object, str, Mapping[str, Decimal]]]:
    """LeaderWorkerSets and Jobs that are queued, their queue, and what a group or a Job asks for at a time."""
    queued = {id(pod.owner): (pod.owner, name) for pod, name in _queued(world)}
    for owner, name in queued.values():
        if owner.kind == "Job":
            count = whole(owner.value, "spec", "parallelism") or 1
            is_partial = any("job-min-parallelism" in key for key in owner.annotations)
            for pod in pods_made_by(owner, world) if not is_partial else ():
                yield owner, name, {one: amount * count for one, amount in pod_total(pod).items()}
        size = whole(owner.value, "spec", "leaderWorkerTemplate", "size")
        pods = {pod.path[-1]: pod_total(pod) for pod in pods_made_by(owner, world) if pod.path}
        workers = pods.get("workerTemplate")
        if owner.kind == "LeaderWorkerSet" and size and workers is not None:
            leader = pods.get("leaderTemplate", workers)
            names = {*leader, *workers}
            yield owner, name, {one: leader.get(one, 0) + workers.get(one, 0) * Decimal(size - 1) for one in names}


def _quota(queue: Object, resource: str) -> Decimal | None:
    """How much of a resource the flavors of a queue may have together; None where one is not known, or none there."""
    entries = [entry for _, entry in _quotas(queue) if text(entry, "name") == resource]
    found = [amount(look(entry, "nominalQuota")) for entry in entries]
    if _in_cohort(queue):
        found += [amount(look(entry, "borrowingLimit")) for entry in entries]
    known = [one for one in found if one is not None]
    return sum(known, Decimal(0)) if known and len(known) == len(found) else None


_WORDS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("queueingStrategy",): ("StrictFIFO", "BestEffortFIFO"),
    ("stopPolicy",): ("None", "Hold", "HoldAndDrain"),
    ("preemption", "withinClusterQueue"): ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    ("preemption", "reclaimWithinCohort"): ("Never", "LowerPriority", "Any"),
    ("preemption", "borrowWithinCohort", "policy"): ("Never", "LowerPriority"),
}


@rule("kueue-cluster-queue-refused", Severity.ERROR)
def kueue_cluster_queue_refused(world: World) -> Iterator[Hit]:
    """A ClusterQueue has a word that does not exist, a quota below zero, something in two groups, or lends to nobody.

    Kueue's webhook refuses it: borrowingLimit and lendingLimit say what queues of one cohort give each other, and a
    resource or a flavor belongs to one of the resourceGroups.
    """
    for queue in world.of_kind("ClusterQueue"):
        for path, words in _WORDS.items():
            word = literal(queue.value, "spec", *path)
            if word is not None and word not in words:
                near = nearest_name(word, words)
                message = f"reading queue {queue.name}: {path[-1]} cannot be `{word}`"
                fix = f"did you mean {near}?" if near else f"write one of: {', '.join(words)}"
                yield Hit(at=queue, path=("spec", *path), message=message, fix=fix)
        yield from _twice(queue)
        for place, entry in _quotas(queue):
            least = amount(look(entry, "nominalQuota"))
            if least is not None and least < 0:
                message = f"reading queue {queue.name}: a quota is below zero: `{plain(least)}`"
                yield Hit(at=queue, path=(*place, "nominalQuota"), message=message, fix="write 0 or more")
            for field in ("borrowingLimit", "lendingLimit"):
                if look(entry, field) is not None and not _in_cohort(queue):
                    message = f"reading queue {queue.name}: {field} needs a cohort: `{look(entry, field)}`"
                    yield Hit(at=queue, path=(*place, field), message=message, fix="name a cohort, or remove the limit")


def _twice(queue: Object) -> Iterator[Hit]:
    """Resources and flavors that stand in two groups of a queue."""
    seen: dict[object, int] = {}
    for index, (path, group) in enumerate(items(queue.value, "spec", "resourceGroups")):
        named = [((*path, *place), item) for place, item in items(group, "coveredResources")]
        named += [((*path, *place, "name"), literal(item, "name")) for place, item in items(group, "flavors")]
        for where, name in named:
            if isinstance(name, str) and seen.setdefault(name, index) != index:
                message = f"reading queue {queue.name}: it stands in another group too: `{name}`"
                fix = "name each resource and each flavor in one group only"
                yield Hit(at=queue, path=where, message=message, fix=fix)


def _in_cohort(queue: Object) -> bool:
    return any(look(queue.value, "spec", key) for key in ("cohort", "cohortName"))


def _quotas(queue: Object) -> Iterator[tuple[FieldPath, Any]]:
    """The quotas of a queue's flavors: where each stands, and what it says."""
    for path, group in items(queue.value, "spec", "resourceGroups"):
        for place, flavor in items(group, "flavors"):
            for inner, entry in items(flavor, "resources"):
                yield (*path, *place, *inner), entry


@rule("kueue-resources-differ", Severity.ERROR)
def kueue_resources_differ(world: World) -> Iterator[Hit]:
    """A flavor of a ClusterQueue has quotas for other resources than its group covers, so the queue is refused.

    Every flavor of a group names exactly the group's coveredResources (Kueue, "Cluster Queue", Resource Groups).
    """
    for queue in world.of_kind("ClusterQueue"):
        for path, group in items(queue.value, "spec", "resourceGroups"):
            covered = {item for _, item in items(group, "coveredResources") if isinstance(item, str)}
            for place, flavor in items(group, "flavors"):
                named = {name for _, entry in items(flavor, "resources") if (name := text(entry, "name"))}
                differing = sorted(covered ^ named)
                if covered and named and differing and not any(map(has_hole, differing)):
                    message = f"dividing quota: only on one side, covered or in the flavor: {shown(differing[0])}"
                    fix = "name the same resources in coveredResources and in every flavor"
                    yield Hit(at=queue, path=(*path, *place, "resources"), message=message, fix=fix)
