"""Autoscalers: their targets, bounds, competition, and triggers that KEDA cannot use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from provisioner.domain.finding import Severity
from provisioner.lint.joins.capacity import gpu_capacity, pod_gpus
from provisioner.lint.joins.deliveries import delivering
from provisioner.lint.joins.differences import ignores_replicas
from provisioner.lint.joins.pods import others_make_pods
from provisioner.lint.joins.quantities import asked
from provisioner.lint.joins.scaling import (
    RESOURCE_TRIGGERS,
    WORKLOADS,
    Scaler,
    engines_in,
    pods_made_by,
    scalers,
    target,
)
from provisioner.lint.joins.slips import Names
from provisioner.lint.rule import Hit, rule
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import is_known, look, text, whole
from provisioner.lint.world import World, same_namespace

_NOT_SCALABLE = frozenset(["DaemonSet", "Pod", "Job", "CronJob", "Service", "ConfigMap"])
_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}
_EAGER_SECONDS = 60


@rule("two-scalers", Severity.ERROR)
def two_scalers(world: World) -> Iterator[Hit]:
    """Two autoscalers decide about the same workload.

    KEDA makes a HorizontalPodAutoscaler of its own for each ScaledObject. Two of them set the replicas in turn, each
    undoing the other; current Kubernetes marks both AmbiguousSelector and scales nothing, and KEDA's webhook refuses
    the second.
    """
    seen: dict[tuple[str, str], list[Scaler]] = {}
    for scaler in scalers(world):
        if scaler.kind is None or scaler.name is None:
            continue
        others = seen.setdefault((scaler.kind, scaler.name), [])
        other = next((one for one in others if _are_two(one, scaler)), None)
        if other is not None:
            message = f"scaling {scaler.kind} {scaler.name}: another scaler does it already: `{other.at.title}`"
            fix = "keep one; a ScaledObject can have several triggers"
            yield Hit(at=scaler.at, path=("spec", "scaleTargetRef"), message=message, fix=fix)
        others.append(scaler)


def _are_two(one: Scaler, other: Scaler) -> bool:
    """Whether two objects are certainly not versions of one: the same kind and name may be an overlay."""
    same = (one.at.kind, one.at.name) == (other.at.kind, other.at.name)
    if same_namespace(one.at.namespace, other.at.namespace) and not same:
        taken = text(other.at.value, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        given = text(one.at.value, "spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        return not _takes_over(one, other, taken) and not _takes_over(other, one, given)
    return False


def _takes_over(plain: Scaler, keda: Scaler, name: str | None) -> bool:
    """Whether a ScaledObject takes a HorizontalPodAutoscaler over, as KEDA's annotation allows."""
    wanted = keda.at.annotations.get("scaledobject.keda.sh/transfer-hpa-ownership") == "true"
    return keda.is_keda and not plain.is_keda and wanted and name == plain.at.name


@lru_cache(maxsize=2)
def _names_in(world: World) -> Mapping[tuple[str, str], Names]:
    """The names of workloads by kind and folder."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in world.of_kind(*WORKLOADS):
        found.setdefault((one.kind, one.folder), []).append(one.name)
    return {place: Names(names) for place, names in found.items()}


@rule("scaler-target-missing", Severity.ERROR)
def scaler_target_missing(world: World) -> Iterator[Hit]:
    """An autoscaler's target is not there.

    The name is misspelt, the kind is another one (a ScaledObject without `kind` means a Deployment), or it stands in
    another namespace; a scaler only reaches its own.
    """
    for scaler in scalers(world):
        if scaler.kind not in WORKLOADS or scaler.name is None or target(scaler, world) is not None:
            continue
        same_name = next(
            (found for kind in WORKLOADS if (found := world.find(kind, scaler.name, namespace=None)) is not None), None
        )
        hidden = not world.has(scaler.kind) or others_make_pods(world, scaler.at.namespace)
        names = _names_in(world).get((scaler.kind, scaler.at.folder))
        near = names.meant_by(scaler.name) if names else None
        if same_name is None and hidden and near is None:
            continue
        fix = f"did you mean {near}?" if near else f"name a {scaler.kind} that exists"
        fix = f"there is {same_name.title}" if same_name else fix
        message = f"scaling: no such target in the namespace: `{scaler.kind} {scaler.name}`"
        yield Hit(at=scaler.at, path=("spec", "scaleTargetRef"), message=message, fix=fix)


@rule("scaler-target-version", Severity.ERROR)
def scaler_target_version(world: World) -> Iterator[Hit]:
    """An autoscaler names its target with an API version that does not serve it.

    Without the group the API server looks in the core group, where there are no Deployments, and the scaler reports
    "unable to get the target's current scale".
    """
    for scaler in scalers(world):
        wanted = _VERSIONS.get(scaler.kind or "")
        if wanted is None or scaler.api_version is None or scaler.api_version == wanted:
            continue
        if scaler.is_keda and scaler.api_version == "":
            continue
        path = ("spec", "scaleTargetRef", "apiVersion") if scaler.api_version else ("spec", "scaleTargetRef")
        message = f"scaling {scaler.kind} {scaler.name}: it is not served in version `{scaler.api_version}`"
        yield Hit(at=scaler.at, path=path, message=message, fix=f"set apiVersion: {wanted}")


@rule("scaler-target-unscalable", Severity.ERROR)
def scaler_target_unscalable(world: World) -> Iterator[Hit]:
    """An autoscaler's target is of a kind that has no replicas.

    Only kinds with the scale subresource can be scaled.
    """
    for scaler in scalers(world):
        if scaler.kind in _NOT_SCALABLE:
            message = f"scaling {scaler.name}: this kind cannot be scaled: `{scaler.kind}`"
            path = ("spec", "scaleTargetRef", "kind")
            yield Hit(at=scaler.at, path=path, message=message, fix="use a Deployment or a StatefulSet")


@rule("replicas-and-scaler", Severity.WARNING)
def replicas_and_scaler(world: World) -> Iterator[Hit]:
    """A manifest fixes the replicas of a workload that a scaler decides about.

    Each apply of the manifest sets the number back and ends running replicas, until the scaler corrects it. Leave the
    field out; Kubernetes starts with 1 and the scaler takes over.
    """
    done = set()
    for scaler in scalers(world):
        found = target(scaler, world)
        if found is None or look(found.value, "spec", "replicas") is None or id(found) in done:
            continue
        done.add(id(found))
        if any(app.heals or ignores_replicas(app, found) for app in delivering(world, found)):
            continue  # either `sync-undoes-scaling` says more, or Argo CD leaves the number alone
        count = look(found.value, "spec", "replicas")
        message = f"applying {found.title}: {scaler.at.title} decides about replicas, the manifest says `{count}`"
        yield Hit(at=found, path=("spec", "replicas"), message=message, fix="remove spec.replicas")


@rule("scaler-bounds-reversed", Severity.ERROR)
def scaler_bounds_reversed(world: World) -> Iterator[Hit]:
    """An autoscaler's lower bound is above its upper one.

    The API server and KEDA's webhook refuse it. KEDA's own defaults count too: at least 0, at most 100; its
    idleReplicaCount must be below the lower bound.
    """
    for scaler in scalers(world):
        least, most = scaler.least, scaler.most
        if least is not None and most is not None and least > most:
            message = f"scaling {scaler.name}: at least {least}, at most `{most}`"
            yield Hit(at=scaler.at, path=scaler.least_path, message=message, fix="exchange or correct the bounds")
        idle = whole(scaler.at.value, "spec", "idleReplicaCount")
        if scaler.is_keda and idle is not None and least is not None and idle >= least:
            message = f"scaling {scaler.name}: idleReplicaCount must be below minReplicaCount {least}: `{idle}`"
            path = ("spec", "idleReplicaCount")
            yield Hit(at=scaler.at, path=path, message=message, fix="set it to 0, or leave it out")


@rule("scaler-beyond-capacity", Severity.WARNING)
def scaler_beyond_capacity(world: World) -> Iterator[Hit]:
    """An autoscaler may want more GPUs than there can ever be.

    The last replicas stay pending for ever, the scaler counts them as started, and alerts about capacity come late.
    """
    for scaler in scalers(world):
        found, most = target(scaler, world), scaler.most
        pods = pods_made_by(found, world)
        size = whole(found.value, "spec", "leaderWorkerTemplate", "size") if found is not None else None
        each = max((pod_gpus(pod) for pod in pods), default=0) * (size or 1)
        capacity = gpu_capacity(world, pods[0]) if pods and each else None
        if most is not None and capacity is not None and most * each > capacity.count:
            message = f"scaling {scaler.name}: {most} replicas of {each} GPUs, {capacity.source} `{capacity.count}`"
            fix = f"set the upper bound to {capacity.count // each}, or add capacity"
            yield Hit(at=scaler.at, path=scaler.most_path, message=message, fix=fix)


def _has_only_resources(scaler: Scaler) -> bool:
    kinds = [text(item, "type") for _, item in scaler.triggers()]
    if scaler.is_keda:
        return bool(kinds) and all(kind in RESOURCE_TRIGGERS for kind in kinds)
    return all(kind in ("Resource", "ContainerResource") for kind in kinds) and is_known(
        look(scaler.at.value, "spec", "maxReplicas")
    )


@rule("scaler-blind-to-gpu", Severity.WARNING)
def scaler_blind_to_gpu(world: World) -> Iterator[Hit]:
    """A model server on GPUs is scaled by CPU or memory only.

    The work is done on the GPU: the process spins a core or two whatever the load, and its memory is constant. Scale by
    what the engine says: waiting and running requests, use of the cache, time to first token. Text Embeddings Inference
    is left alone: it splits texts into tokens on the CPU, request by request.
    """
    for scaler in scalers(world):
        found = [one for one in engines_in(target(scaler, world), world) if one.kind is not EngineKind.TEI]
        if any(engine.gpus for engine in found) and _has_only_resources(scaler):
            message = f"scaling {scaler.name}: CPU and memory say nothing about the load of `{found[0].kind}`"
            path = ("spec", "triggers") if scaler.is_keda else ("spec", "metrics")
            fix = "scale by the engine's waiting requests, such as vllm:num_requests_waiting"
            yield Hit(at=scaler.at, path=path, message=message, fix=fix)


@rule("scaler-cpu-without-request", Severity.ERROR)
def scaler_cpu_without_request(world: World) -> Iterator[Hit]:
    """A scaler goes by a share of the requested CPU or memory, and no container requests any.

    Utilization is used divided by requested; without a request the autoscaler reports "missing request for cpu" and
    scales nothing.
    """
    for scaler in scalers(world):
        found = target(scaler, world)
        pods = pods_made_by(found, world)
        if not pods or world.has("LimitRange"):
            continue
        for path, item in scaler.triggers():
            name = text(item, "type") if scaler.is_keda else text(item, "resource", "name")
            kind = text(item, "metricType") if scaler.is_keda else text(item, "resource", "target", "type")
            containers = [container for pod in pods for container in pod.containers if not container.is_init]
            if name in RESOURCE_TRIGGERS and kind == "Utilization":
                lacking = next((one for one in containers if name not in asked(one)), None)
                if lacking is not None:
                    message = f"scaling {scaler.name}: container {lacking.name} requests no `{name}`"
                    fix = f"set requests.{name} in every container"
                    yield Hit(at=scaler.at, path=path, message=message, fix=fix)


@rule("scale-down-hasty", Severity.WARNING)
def scale_down_hasty(world: World) -> Iterator[Hit]:
    """A model server is scaled down after less than a minute of less load.

    A replica takes minutes to load its model again, so a short pause in the traffic costs more than it saves, and the
    number of replicas swings. Kubernetes' own default is 300 seconds.
    """
    for scaler in scalers(world):
        if not engines_in(target(scaler, world), world):
            continue
        behaviour = ("advanced", "horizontalPodAutoscalerConfig") if scaler.is_keda else ()
        path = ("spec", *behaviour, "behavior", "scaleDown", "stabilizationWindowSeconds")
        window, cooldown = whole(scaler.at.value, *path), whole(scaler.at.value, "spec", "cooldownPeriod")
        if window is not None and window < _EAGER_SECONDS:
            message = f"scaling {scaler.name} down: a model takes minutes to load again, this waits `{window} s`"
            yield Hit(at=scaler.at, path=path, message=message, fix="use 300 s")
        elif scaler.is_keda and cooldown is not None and cooldown < _EAGER_SECONDS and scaler.least == 0:
            message = f"scaling {scaler.name} to zero: a model takes minutes to load again, this waits `{cooldown} s`"
            yield Hit(at=scaler.at, path=("spec", "cooldownPeriod"), message=message, fix="use 300 s or more")


@rule("scaler-fallback-out-of-bounds", Severity.WARNING)
def scaler_fallback_out_of_bounds(world: World) -> Iterator[Hit]:
    """The replicas that KEDA falls back to are outside of its own bounds.

    When the metric cannot be read, KEDA asks for that number and the HorizontalPodAutoscaler cuts it to the bounds.
    """
    for scaler in scalers(world):
        wanted, least, most = whole(scaler.at.value, "spec", "fallback", "replicas"), scaler.least, scaler.most
        if wanted is not None and least is not None and most is not None and not least <= wanted <= most:
            message = f"scaling {scaler.name}: fallback is outside of {least} to {most}: `{wanted}`"
            path = ("spec", "fallback", "replicas")
            yield Hit(at=scaler.at, path=path, message=message, fix="choose a number within the bounds")


@rule("vertical-scaler-restarts-model", Severity.WARNING)
def vertical_scaler_restarts_model(world: World) -> Iterator[Hit]:
    """A VerticalPodAutoscaler may restart model servers.

    In its default mode it evicts pods to change their requests: the model is loaded again, and the GPU, which decides,
    is not scaled by it at all.
    """
    for found in world.of_kind("VerticalPodAutoscaler"):
        kind, name = text(found.value, "spec", "targetRef", "kind"), text(found.value, "spec", "targetRef", "name")
        mode = look(found.value, "spec", "updatePolicy", "updateMode")
        owner = world.find(kind, name, namespace=found.namespace) if kind and name else None
        if mode in (None, "Auto", "Recreate") and engines_in(owner, world):
            message = f"scaling {name}: pods are evicted to change their requests: updateMode `{mode or 'Auto'}`"
            fix = 'set updateMode: "Off" and read its recommendation'
            yield Hit(at=found, path=("spec",), message=message, fix=fix)
