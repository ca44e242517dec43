"""How groups of pods start: their restart policy, and who starts Ray's head."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.scaling import engines_in, pods_made_by
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import look, text, whole
from provisioner.lint.world import Container, Object, World

_POLICY: FieldPath = ("spec", "leaderWorkerTemplate", "restartPolicy")
_POLICIES = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None", "Default")
_JOINS = re.compile(r"ray start\b[^\n;&|]{0,500}?--address[= ][\"']?(?P<where>[^\s\"']{1,253})")
_MAY_LEAD = re.compile(r"--head\b|symmetric[-_]run|\.sh\b|\.py\b|ray\.init")
"""What starts Ray's head, or is a script that may."""


@rule("group-restart-policy-unknown", Severity.ERROR)
def group_restart_policy_unknown(world: World) -> Iterator[Hit]:
    """A LeaderWorkerSet has a restart policy that does not exist.

    The API server refuses it. RecreateGroupOnPodRestart is the one for ranks that share a model (RecreateGroup never
    was one); RecreateGroupAfterStart waits for pods that are still pending.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        policy = text(found.value, *_POLICY)
        if policy is not None and policy not in _POLICIES:
            near = "RecreateGroupOnPodRestart" if "recreate" in policy.lower() else nearest_name(policy, _POLICIES)
            message = f"restarting pods of {found.name}: no such restart policy: `{policy}`"
            fix = f"did you mean {near}?" if near else "use RecreateGroupOnPodRestart"
            yield Hit(at=found, path=_POLICY, message=message, fix=fix)


_RAY_SIZE = re.compile(r"--ray_cluster_size[= ]([0-9]{1,4})\b")


@rule("group-ray-size-differs", Severity.ERROR)
def group_ray_size_differs(world: World) -> Iterator[Hit]:
    """The leader of a group waits for another number of Ray nodes than the group has pods.

    `multi-node-serving.sh leader --ray_cluster_size=…` waits until so many nodes have joined, and gives up where there
    are fewer; with a smaller number it starts before its GPUs are there. `$(LWS_GROUP_SIZE)` always fits.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        size = whole(found.value, "spec", "leaderWorkerTemplate", "size")
        for pod in pods_made_by(found, world):
            for container in pod.containers:
                told = _RAY_SIZE.search(_script(container))
                if told is not None and size is not None and int(told[1]) != size:
                    message = f"joining ranks of {found.name}: the group has {size} pods, Ray waits for `{told[1]}`"
                    fix = "write --ray_cluster_size=$(LWS_GROUP_SIZE)"
                    yield Hit(at=found, path=container.path, message=message, fix=fix)


def _script(container: Container) -> str:
    return " ".join([*container.arguments, str(look(container.value, "lifecycle") or "")])


def _wants_ray(found: Object, world: World) -> FieldPath | None:
    """Where a group is told to use a Ray cluster of its own."""
    for engine in engines_in(found, world):
        flag = engine.find("--distributed-executor-backend")
        is_elsewhere = engine.variable("RAY_ADDRESS") or look(engine.container.value, "envFrom")
        if flag is not None and flag.value == "ray" and not is_elsewhere:
            return flag.path
    for pod in pods_made_by(found, world):
        for container in pod.containers:
            joined = _JOINS.search(_script(container))
            if joined is not None and "LWS_LEADER_ADDRESS" in joined["where"]:
                return container.path
    return None


def _is_understood(found: Object, world: World) -> bool:
    """Whether each kind of pod says what it starts: an engine or Ray, and no program that may start either."""
    running = {(engine.pod.path, engine.container.path) for engine in engines_in(found, world)}
    return all(
        any((pod.path, one.path) in running or "ray start" in _script(one) for one in pod.containers)
        for pod in pods_made_by(found, world)
    )


@rule("group-without-ray-head", Severity.ERROR)
def group_without_ray_head(world: World) -> Iterator[Hit]:
    """Nobody in a group starts the head of the Ray cluster that its pods are to form.

    `ray start --address=…` joins a head that another pod started with `ray start --head`; where no pod does, all of
    them wait and give up. An engine with `--distributed-executor-backend ray` and no such cluster finds the GPUs of
    its own pod only. The leader runs `ray start --head`, or vLLM's `multi-node-serving.sh leader`.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        size = whole(found.value, "spec", "leaderWorkerTemplate", "size")
        scripts = [_script(container) for pod in pods_made_by(found, world) for container in pod.containers]
        if size is None or size < 2 or any(map(_MAY_LEAD.search, scripts)) or not _is_understood(found, world):
            continue
        path = _wants_ray(found, world)
        if path is not None:
            message = f"joining ranks of {found.name}: no pod of the group starts Ray's head: `ray start --head`"
            fix = "let the leader run `ray start --head --port=6379` before the engine"
            yield Hit(at=found, path=path, message=message, fix=fix)


_RANK = re.compile(r"[0-9]{1,4}")


@rule("group-rank-fixed", Severity.ERROR)
def group_rank_fixed(world: World) -> Iterator[Hit]:
    """Pods of a group are all told the same rank.

    A LeaderWorkerSet makes every worker from one template: a number there is the rank of all of them, and 0 is the
    leader's. Two ranks with one number never come together, and the start hangs until it times out.
    `$(LWS_WORKER_INDEX)` is each pod's own.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        size = whole(found.value, "spec", "leaderWorkerTemplate", "size") or 0
        has_leader = look(found.value, "spec", "leaderWorkerTemplate", "leaderTemplate") is not None
        for engine in engines_in(found, world) if size > 1 else ():
            flag = engine.find("--node-rank")
            if flag is None or not flag.value or not _RANK.fullmatch(flag.value):
                continue
            is_leader = engine.pod.path[-1] == "leaderTemplate"
            right = {"0"} if is_leader else {"1"} if has_leader and size == 2 else set()
            if flag.value not in right:
                message = f"joining ranks of {found.name}: {flag.name} is `{flag.value}` for each of these pods"
                yield Hit(at=found, path=flag.path, message=message, fix="write $(LWS_WORKER_INDEX)")


_MEETING = ("--dist-init-addr", "--nccl-init-addr", "--master-addr", "--data-parallel-address")


@rule("group-meets-on-loopback", Severity.ERROR)
def group_meets_on_loopback(world: World) -> Iterator[Hit]:
    """Pods of a group are told to meet on the loopback address.

    Each rank asks its own pod and finds nobody: the start hangs until it times out. `$(LWS_LEADER_ADDRESS)` is the
    leader of each pod's group.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        size = whole(found.value, "spec", "leaderWorkerTemplate", "size") or 0
        for engine in engines_in(found, world) if size > 1 else ():
            for name in _MEETING:
                flag = engine.find(name)
                if flag is not None and (flag.value or "").startswith(("127.", "localhost", "0.0.0.0", "[::1]")):  # noqa: S104
                    message = f"joining ranks of {found.name}: {name} leads to no other pod: `{flag.value}`"
                    yield Hit(at=found, path=flag.path, message=message, fix="write $(LWS_LEADER_ADDRESS) and a port")


_JOINED = re.compile(r"(?:--address|--ray_address|--dist-init-addr|--master-addr)[= ][\"']?([^\s\"';&|]+)")
_OWN_LEADER = re.compile(r"LWS_LEADER_ADDRESS|MASTER_ADDR|RAY_ADDRESS|HEAD|LEADER|\$")


@rule("groups-share-leader", Severity.ERROR)
def groups_share_leader(world: World) -> Iterator[Hit]:
    """The workers of every group join one address, and there are several groups.

    A fixed name leads all workers to one leader, or to any: groups are mixed, and the others wait for ever.
    `$(LWS_LEADER_ADDRESS)` is the leader of each pod's own group.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        if (whole(found.value, "spec", "replicas") or 1) < 2:
            continue
        for pod in pods_made_by(found, world):
            for container in pod.containers if pod.path[-1] == "workerTemplate" else ():
                joined = _JOINED.search(_script(container))
                if joined is not None and not _OWN_LEADER.search(joined[1]):
                    message = f"joining ranks of {found.name}: the workers of all groups ask at `{joined[1]}`"
                    yield Hit(at=found, path=container.path, message=message, fix="write $(LWS_LEADER_ADDRESS)")
