"""Ranks of one replica that must be told the same: ports where they meet, sizes, number of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import engines_in, pods_made_by
from provisioner.lint.model_servers import Engine, group_size, repository
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items
from provisioner.lint.world import Container, Object, PodTemplate, World

_RAY_PORT = 6379
"""Where `ray start --head` listens unless it is told otherwise."""
_SCRIPT = r"multi-node-serving\.sh "
"""vLLM's own script for groups, which starts Ray."""
_RAY_HEAD = re.compile(rf"ray start\b[^\n;&|]{{0,500}}?--head[^\n;&|]{{0,500}}|{_SCRIPT}leader[^\n;&|]{{0,500}}")
_RAY_JOIN = re.compile(
    rf"ray start\b[^\n;&|]{{0,500}}?--address[= ][\"']?[^\s\"':]{{1,253}}:(?P<port>\d{{1,5}})"
    rf"|{_SCRIPT}worker(?P<rest>[^\n;&|]{{0,500}})"
)
_PORT = re.compile(r"--(?:ray_|ray-)?port[= ](\d{1,5})")
_ALIKE = (
    *("model", "tensor", "pipeline", "data", "nodes", "quantization", "context"),
    *("--dist-init-addr", "--master-port", "--data-parallel-rpc-port", "--dtype", "--kv-cache-dtype"),
)
"""What each rank must be told in the same words."""


def _groups(world: World) -> Iterator[tuple[Object, PodTemplate, PodTemplate]]:
    """LeaderWorkerSets with a template each for leader and workers."""
    for found in world.of_kind("LeaderWorkerSet"):
        pods = {pod.path[-1]: pod for pod in pods_made_by(found, world)}
        if len(pods) == 2:
            yield found, pods["leaderTemplate"], pods["workerTemplate"]


def _words(pod: PodTemplate) -> Iterator[tuple[Container, FieldPath, str]]:
    """Every word of every container, and where it stands; all words of a container once more as one text."""
    for container in pod.containers:
        for part in ("command", "args"):
            for path, item in items(container.value, part):
                if isinstance(item, str):
                    yield container, (*container.path, *path), item
        yield container, container.path, " ".join(container.arguments)


def _head_port(pod: PodTemplate) -> int | None:
    for _, _, word in _words(pod):
        found = _RAY_HEAD.search(word)
        if found is not None:
            told = _PORT.search(found[0])
            return int(told[1]) if told else _RAY_PORT
    return None


def _joined_port(pod: PodTemplate) -> tuple[int, FieldPath] | None:
    for _, path, word in _words(pod):
        found = _RAY_JOIN.search(word)
        if found is not None:
            told = found["port"] or ((match := _PORT.search(found["rest"] or "")) and match[1])
            return int(told or _RAY_PORT), path
    return None


@rule("group-ray-port-differs", Severity.ERROR)
def group_ray_port_differs(world: World) -> Iterator[Hit]:
    """The workers of a group look for Ray's head at a port where it does not listen.

    `ray start --head` listens on 6379 unless `--port` says otherwise. Workers that try another one wait until they
    give up, and the engine waits for their GPUs for ever.
    """
    for found, leader, worker in _groups(world):
        head, joined = _head_port(leader), _joined_port(worker)
        if head is not None and joined is not None and head != joined[0]:
            message = f"joining ranks of {found.name}: Ray's head listens on {head}, the workers ask at `{joined[0]}`"
            yield Hit(at=found, path=joined[1], message=message, fix=f"write {head} in both places")


@rule("group-ranks-disagree", Severity.ERROR)
def group_ranks_disagree(world: World) -> Iterator[Hit]:
    """The leader and the workers of a group are told different things about the model they share.

    All ranks load a part of one model and meet at one address: with another model, another parallel size or another
    port they never come together, and the start hangs until it times out.
    """
    for found, _, _ in _groups(world):
        leader, worker = _engine(world, found, "leaderTemplate"), _engine(world, found, "workerTemplate")
        if leader is None or worker is None or leader.kind is not worker.kind:
            continue
        for concept in _ALIKE:
            ours, theirs = leader.value(concept), worker.value(concept)
            flag = worker.find(concept)
            if flag is not None and ours is not None and theirs is not None and ours != theirs:
                message = f"joining ranks of {found.name}: {flag.name} is {ours} for the leader, `{theirs}` for workers"
                yield Hit(at=found, path=flag.path, message=message, fix="write the same in both templates")


def _engine(world: World, found: Object, template: str) -> Engine | None:
    return next((engine for engine in engines_in(found, world) if engine.pod.path[-1] == template), None)


@rule("group-nodes-differ", Severity.ERROR)
def group_nodes_differ(world: World) -> Iterator[Hit]:
    """An engine is told of another number of nodes than its group has pods.

    With more nodes than pods the ranks wait for one that never comes; with fewer, the last pods are refused.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        for engine in engines_in(found, world):
            flag, count, size = engine.find("nodes"), engine.count("nodes"), group_size(engine)
            if flag is not None and count is not None and size is not None and count != size:
                message = f"counting nodes of {found.name}: the group has {size} pods, {flag.name} says `{count}`"
                yield Hit(at=found, path=flag.path, message=message, fix=f"write {size}, or $(LWS_GROUP_SIZE)")


_SCRIPT_END = re.compile(r"(?:\n|;|&&|\|\|)\s*")


@rule("ray-start-ends", Severity.ERROR)
def ray_start_ends(world: World) -> Iterator[Hit]:
    """A container does nothing after `ray start`, which ends at once.

    Without `--block` the command leaves Ray in the background and returns; the container ends with it and is started
    over and over.
    """
    for pod in world.pods:
        for container in pod.containers:
            script = " ".join(container.arguments).strip()
            last = _SCRIPT_END.split(script)[-1] if script else ""
            if not container.is_init and re.search(r"\bray start\b", last) and "--block" not in last:
                message = f"joining ranks of {pod.owner.name}: the container ends after `{last[:60]}`"
                yield Hit(at=pod.owner, path=container.path, message=message, fix="add --block")


@rule("group-images-differ", Severity.WARNING)
def group_images_differ(world: World) -> Iterator[Hit]:
    """The leader and the workers of a group run different images of one repository.

    Ray refuses workers of another version, and ranks with other kernels or another protocol hang or end. As a rule one
    of two places was forgotten in an update.
    """
    for found, leader, worker in _groups(world):
        engine = _engine(world, found, "leaderTemplate")
        ours = engine.container.image if engine else ""
        for container in worker.containers:
            theirs = container.image
            if not container.is_init and theirs != ours and _same_repository(ours, theirs) and leader.containers:
                message = f"joining ranks of {found.name}: the leader runs `{ours}`, a worker `{theirs}`"
                yield Hit(at=found, path=(*container.path, "image"), message=message, fix="use one image for both")


def _same_repository(one: str, other: str) -> bool:
    names = {repository(image) for image in (one, other)}
    return len(names) == 1
