"""Replicas that span nodes: LeaderWorkerSets, Ray and the network between their pods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.capacity import pod_gpus
from provisioner.lint.joins.scaling import pods_made_by
from provisioner.lint.joins.selectors import selected
from provisioner.lint.joins.services import services
from provisioner.lint.model_servers import Engine, engines, group_size
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._reach import probe
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import items, look, mapping, text, texts, whole
from provisioner.lint.world import Container, Object, PodTemplate, World

_GROUP = "leaderworkerset.sigs.k8s.io/"
_RDMA = ("rdma/", "nvidia.com/rdma", "nvidia.com/hostdev", "vpc.amazonaws.com/efa", "openshift.io/", "nvidia.com/ib")
_RAY_KINDS = ("RayCluster", "RayService")


def _worker(found: Object, world: World) -> PodTemplate | None:
    return next((pod for pod in pods_made_by(found, world) if pod.path[-1] == "workerTemplate"), None)


def _leader(found: Object, world: World) -> PodTemplate | None:
    return next((pod for pod in pods_made_by(found, world) if pod.path[-1] == "leaderTemplate"), None)


@rule("workers-behind-service", Severity.ERROR)
def workers_behind_service(world: World) -> Iterator[Hit]:
    """A Service sends requests to the workers of a LeaderWorkerSet.

    Only the leader of a group answers; workers hold part of the model and serve no API. With workers among the
    endpoints a share of all requests is refused. The label `leaderworkerset.sigs.k8s.io/worker-index: "0"` (or a
    label of the leader's template only) selects leaders.
    """
    for service, chosen in services(world) if world.has("LeaderWorkerSet") else ():
        if text(service.value, "spec", "clusterIP") == "None" or f"{_GROUP}worker-index" in chosen.labels:
            continue
        for pod in selected(world, chosen, service.namespace):
            is_one_pod = whole(pod.owner.value, "spec", "leaderWorkerTemplate", "size") == 1
            if pod.path[-1:] == ("workerTemplate",) and not is_one_pod:
                message = (
                    f"selecting pods of {pod.owner.title}: workers answer no requests, and they match `{service.name}`"
                )
                fix = f'add {_GROUP}worker-index: "0" to the selector'
                yield Hit(at=service, path=("spec", "selector"), message=message, fix=fix)


@rule("ray-workers-behind-service", Severity.ERROR)
def ray_workers_behind_service(world: World) -> Iterator[Hit]:
    """A Service sends requests to all pods of a Ray cluster, where only the head answers.

    `vllm serve` on Ray listens on the head. KubeRay labels the head `ray.io/node-type: head`.
    """
    clusters = {found.name for found in world.of_kind(*_RAY_KINDS)}
    for service in world.of_kind("Service"):
        selector = texts(service.value, "spec", "selector")
        whole_cluster = selector.get("ray.io/cluster") in clusters and len(selector) == 1
        if whole_cluster and text(service.value, "spec", "clusterIP") != "None":
            message = f"selecting pods of Ray cluster {selector['ray.io/cluster']}: the workers match `{service.name}`"
            fix = "add ray.io/node-type: head to the selector"
            yield Hit(at=service, path=("spec", "selector"), message=message, fix=fix)


def _group_gpus(engine: Engine, world: World) -> int | None:
    """GPUs of one group, None where they are not all known."""
    size, own = group_size(engine), engine.gpus
    worker = _worker(engine.pod.owner, world)
    if size is None or not own or worker is None:
        return None
    each = pod_gpus(worker) if _leader(engine.pod.owner, world) is not None else own
    return own + (size - 1) * each


def _wanted(engine: Engine) -> int | None:
    tensor, pipeline, data = engine.count("tensor"), engine.count("pipeline"), engine.count("data")
    if engine.kind not in (EngineKind.VLLM, EngineKind.SGLANG) or tensor is None or pipeline is None or data is None:
        return None
    return tensor * pipeline * (1 if engine.find("--enable-dp-attention") else data)


def _leading(world: World) -> Iterator[Engine]:
    """The engines in the leaders of LeaderWorkerSets (or in all pods, where the group has one template)."""
    for engine in engines(world):
        if engine.pod.owner.kind == "LeaderWorkerSet":
            has_leader = _leader(engine.pod.owner, world) is not None
            if not has_leader or engine.pod.path[-1] == "leaderTemplate":
                yield engine


@rule("group-too-small-for-model", Severity.ERROR)
def group_too_small_for_model(world: World) -> Iterator[Hit]:
    """A group of pods has fewer GPUs than the engine cuts the model over.

    tensor x pipeline x data parallel GPUs are needed; a group has size x GPUs of a pod. Ray waits for the missing ones
    for ever, other launchers end.
    """
    for engine in _leading(world):
        wanted, there = _wanted(engine), _group_gpus(engine, world)
        if wanted is not None and there is not None and wanted > there:
            flag = engine.find("tensor") or engine.find("pipeline")
            message = f"counting GPUs of a group: the engine needs {wanted}, {group_size(engine)} pods have `{there}`"
            yield Hit(
                at=engine.pod.owner,
                path=flag.path if flag else engine.container.path,
                message=message,
                fix="make size x GPUs per pod equal to the product of the parallel sizes",
            )


@rule("group-gpus-left-idle", Severity.WARNING)
def group_gpus_left_idle(world: World) -> Iterator[Hit]:
    """A group of pods has more GPUs than the engine uses.

    The rest is allocated on every node of the group and idle. Usually tensor parallel is the GPUs of a node, pipeline
    parallel the number of nodes.
    """
    for engine in _leading(world):
        wanted, there = _wanted(engine), _group_gpus(engine, world)
        if wanted is not None and there is not None and wanted < there and engine.find("tensor"):
            flag = engine.find("tensor")
            message = f"counting GPUs of a group: {group_size(engine)} pods have {there}, the engine uses `{wanted}`"
            yield Hit(
                at=engine.pod.owner,
                path=flag.path if flag else engine.container.path,
                message=message,
                fix="make the product of the parallel sizes equal to size x GPUs per pod",
            )


@rule("group-waits-for-itself", Severity.ERROR)
def group_waits_for_itself(world: World) -> Iterator[Hit]:
    """The workers of a group start after the leader is ready, and the leader is ready after they joined.

    With startupPolicy LeaderReady the controller creates no worker before the leader is ready. An engine over several
    nodes answers its readiness probe only when all ranks have loaded, so neither ever happens.
    """
    for engine in _leading(world):
        path = ("spec", "startupPolicy")
        size, ready = group_size(engine), probe(engine, "readinessProbe")
        if look(engine.pod.owner.value, *path) == "LeaderReady" and ready is not None and size is not None and size > 1:
            message = "starting a group: the leader gets ready only with its workers: startupPolicy `LeaderReady`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="use startupPolicy: LeaderCreated")


@rule("group-restarts-in-part", Severity.WARNING)
def group_restarts_in_part(world: World) -> Iterator[Hit]:
    """A lost pod of a group is replaced alone.

    The other ranks hold connections and state of the lost one and wait for it until a timeout; the replica hangs. With
    RecreateGroupOnPodRestart the whole group starts anew.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        path = ("spec", "leaderWorkerTemplate", "restartPolicy")
        policy = look(found.value, *path)
        if policy in ("None", "Default") and whole(found.value, "spec", "leaderWorkerTemplate", "size") != 1:
            message = f"restarting pods of {found.name}: the rest of the group hangs: restartPolicy `{policy}`"
            yield Hit(at=found, path=path, message=message, fix="use RecreateGroupOnPodRestart")


def _gpu_containers(found: Object, world: World) -> Iterator[tuple[PodTemplate, Container]]:
    for pod in pods_made_by(found, world):
        for container in pod.containers:
            limits = mapping(container.value, "resources", "limits")
            if not container.is_init and any("gpu" in str(name) for name in limits):
                yield pod, container


def _is_large(found: Object) -> bool:
    size = whole(found.value, "spec", "leaderWorkerTemplate", "size")
    return size is not None and size > 1


def _names(container: Container) -> list[str]:
    values = container.value.get("env")
    return [str(look(item, "name")) for item in values] if isinstance(values, list) else []


@rule("group-without-fast-network", Severity.INFO)
def group_without_fast_network(world: World) -> Iterator[Hit]:
    """The pods of a group have neither RDMA devices nor settings for NCCL's network.

    NCCL then speaks TCP over the pod network: it works, at a fraction of the speed. Ask for the fabric's resource
    (rdma/…, vpc.amazonaws.com/efa) and name its interfaces in NCCL_IB_HCA or NCCL_SOCKET_IFNAME.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        for pod, container in _gpu_containers(found, world) if _is_large(found) else ():
            limits = mapping(container.value, "resources", "limits")
            told = any(name.startswith(("NCCL_", "UCX_", "NVSHMEM_", "FI_")) for name in _names(container))
            devices = any(str(name).startswith(_RDMA) for name in limits) or look(container.value, "envFrom")
            if not told and not devices and not look(pod.spec, "hostNetwork"):
                message = f"connecting pods of {found.name}: container {container.name} has no RDMA device: only `TCP`"
                fix = "ask for the RDMA resource of the nodes and set NCCL_IB_HCA or NCCL_SOCKET_IFNAME"
                yield Hit(at=found, path=container.path, message=message, fix=fix)
                break


@rule("group-over-loopback", Severity.ERROR)
def group_over_loopback(world: World) -> Iterator[Hit]:
    """Pods of a group are told to speak to each other over the loopback interface.

    `NCCL_SOCKET_IFNAME=lo` (or Gloo's) reaches only the pod itself: ranks on other nodes never connect, and the start
    hangs until it times out.
    """
    for found in world.of_kind("LeaderWorkerSet"):
        if whole(found.value, "spec", "leaderWorkerTemplate", "size") in (None, 1):
            continue
        for pod in pods_made_by(found, world):
            for container in pod.containers:
                for path, entry in items(container.value, "env"):
                    is_interface = text(entry, "name") in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
                    if is_interface and (text(entry, "value") or "").lstrip("=") in ("lo", "lo0"):
                        name = text(entry, "name")
                        message = f"joining ranks of {found.name}: the interface leads to no other pod: `{name}`"
                        fix = "name the interface of the pod network, such as eth0, or leave it out"
                        yield Hit(at=pod.owner, path=(*container.path, *path, "value"), message=message, fix=fix)


@rule("rdma-switched-off", Severity.WARNING)
def rdma_switched_off(world: World) -> Iterator[Hit]:
    """A container gets RDMA devices and NCCL is told not to use them.

    NCCL_IB_DISABLE=1 is a left-over of debugging; the adapters are allocated and idle, and the model waits for TCP.
    """
    for engine in engines(world):
        limits = mapping(engine.container.value, "resources", "limits")
        path = engine.variable("NCCL_IB_DISABLE")
        has_device = any(str(name).startswith(_RDMA) for name in limits)
        if path is not None and engine.environment.get("NCCL_IB_DISABLE") == "1" and has_device:
            message = "using RDMA: NCCL is told not to: `NCCL_IB_DISABLE=1`"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix="remove it")


_FABRIC = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX")


@rule("fabric-without-device", Severity.WARNING)
def fabric_without_device(world: World) -> Iterator[Hit]:
    """A container names adapters of InfiniBand for NCCL, and gets no device of them.

    Without a resource such as `rdma/ib` (or the host's network and privileges, or a second network) the container sees
    no adapter: NCCL falls back to TCP without a word, and ranks on several nodes wait for each other.
    """
    for engine in engines(world):
        path = next((path for name in _FABRIC if (path := engine.variable(name))), None)
        limits = mapping(engine.container.value, "resources", "limits")
        has_device = any(re.search(r"rdma|\bib\b|hca|sriov|roce|efa|infiniband", str(name)) for name in limits)
        is_open = look(engine.pod.spec, "hostNetwork") is True or look(
            engine.container.value, "securityContext", "privileged"
        )
        networks = mapping(engine.pod.value, "metadata", "annotations")
        has_other = any("network" in str(key) for key in networks) or look(
            engine.container.value, "resources", "claims"
        )
        if path is not None and not (has_device or is_open or has_other) and engine.gpus:
            message = f"using RDMA: NCCL is told of adapters, and the container gets none: `{engine.container.name}`"
            fix = "ask for the adapters' resource, such as rdma/ib, or remove the variable"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)
