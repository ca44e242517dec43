"""The time that a model needs before it answers, against the probes and roll-outs that wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._cache import is_hub_name, keeps_models
from provisioner.lint.rules.engines._models import weights_of
from provisioner.lint.rules.engines._reach import Probe, probe
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import look, whole
from provisioner.lint.world import World

_FASTEST = 2 * 10**9
"""Bytes a second of a local NVMe disk into GPU memory: nothing loads faster in practice."""
_DOWNLOAD = 250 * 10**6
"""Bytes a second of a download and of loading together on a usual cluster."""
_VOLUME = 750 * 10**6
"""Bytes a second from a volume that holds the weights already."""
_PER_GPU = 20 * 10**9
"""Bytes of an unknown model on each of several GPUs: with less it would be on fewer of them."""
_USUAL_START_SECONDS = 120
"""Importing, compiling and capturing graphs takes one to two minutes on vLLM and SGLang."""
_DEADLINE_SECONDS = 600
"""progressDeadlineSeconds where a Deployment leaves it out."""
_SLOW_STARTERS = frozenset([EngineKind.VLLM, EngineKind.SGLANG, EngineKind.TGI, EngineKind.NIM])


def _bytes(engine: Engine, world: World) -> int:
    weights = weights_of(engine, world.catalog)
    return weights.stored_bytes if weights else 0


def _least_seconds(engine: Engine, world: World) -> int:
    """What a start takes at the very least."""
    return engine.profile.startup_seconds + _bytes(engine, world) // _FASTEST


def _usual_seconds(engine: Engine, world: World) -> int:
    """What a start takes on a usual cluster, weights downloaded where no volume keeps them."""
    start = _USUAL_START_SECONDS if engine.kind in _SLOW_STARTERS else engine.profile.startup_seconds
    is_there = keeps_models(engine) or not is_hub_name(engine)
    gpus = (engine.count("tensor") or 1) * (engine.count("pipeline") or 1)
    count = _bytes(engine, world) or (gpus * _PER_GPU if gpus > 1 else 0)
    return start + count // (_VOLUME if is_there else _DOWNLOAD)


def _size(engine: Engine, world: World) -> str:
    count = _bytes(engine, world)
    return f"{count / 10**9:.0f} GB of weights" if count else "a model"


@rule("startup-budget-impossible", Severity.ERROR)
def startup_budget_impossible(world: World) -> Iterator[Hit]:
    """The start-up probe gives up before the model can possibly be loaded.

    failureThreshold x periodSeconds is all the time that a start may take; then the kubelet kills the container and it
    starts from nothing, for ever. Reckoned at 2 GB of weights a second, faster than disks and networks in practice,
    and half a minute for the engine itself. KServe's issue 5063 and vLLM's own examples give ten minutes and more.
    """
    for engine in engines(world):
        found = probe(engine, "startupProbe")
        if found is not None and found.is_known and found.budget <= _least_seconds(engine, world):
            yield Hit(
                at=engine.pod.owner,
                path=found.path,
                message=f"starting {engine.kind}: {_size(engine, world)} cannot be loaded within `{found.budget} s`",
                fix=f"allow at least {_advice(engine, world)} s: failureThreshold x periodSeconds",
            )


@rule("startup-budget-tight", Severity.WARNING)
def startup_budget_tight(world: World) -> Iterator[Hit]:
    """The start-up probe allows less time than a usual cluster takes to load the model.

    It works while the weights lie in a warm cache and fails on a fresh node. Reckoned at 250 MB a second for download
    and loading together (750 from a volume that keeps the weights), and two minutes for the engine to compile and
    capture its graphs.
    """
    for engine in engines(world):
        found = probe(engine, "startupProbe")
        if found is None or not found.is_known:
            continue
        if _least_seconds(engine, world) < found.budget < _usual_seconds(engine, world):
            yield Hit(
                at=engine.pod.owner,
                path=found.path,
                message=f"starting {engine.kind}: {_size(engine, world)} may take longer than `{found.budget} s`",
                fix=f"allow at least {_advice(engine, world)} s: failureThreshold x periodSeconds",
            )


def _advice(engine: Engine, world: World) -> int:
    return max(600 if engine.kind in _SLOW_STARTERS else 60, _usual_seconds(engine, world))


def _unprotected(engine: Engine) -> Probe | None:
    """The liveness probe that runs while the model loads, None where a start-up probe holds it back."""
    found = probe(engine, "livenessProbe")
    return found if found is not None and found.is_known and probe(engine, "startupProbe") is None else None


@rule("liveness-kills-loading-model", Severity.ERROR)
def liveness_kills_loading_model(world: World) -> Iterator[Hit]:
    """The liveness probe restarts the container before its model can possibly be loaded.

    Without a start-up probe the liveness probe counts from the start: after initialDelaySeconds + failureThreshold x
    periodSeconds the kubelet kills an engine that is still loading, and the next try takes as long. KServe had this
    (issue 5062), KubeAI too (issue 172).
    """
    for engine in engines(world):
        found = _unprotected(engine)
        if found is not None and found.budget <= _least_seconds(engine, world):
            yield Hit(
                at=engine.pod.owner,
                path=found.path,
                message=f"starting {engine.kind}: the liveness probe kills it after `{found.budget} s`, "
                f"before {_size(engine, world)} can be loaded",
                fix=f"add a startupProbe of at least {_advice(engine, world)} s (failureThreshold x periodSeconds)",
            )


@rule("liveness-without-startup-probe", Severity.WARNING)
def liveness_without_startup_probe(world: World) -> Iterator[Hit]:
    """Only a delay keeps the liveness probe from a loading model, and it is shorter than a usual start.

    A fixed delay is too short on a cold node and too long on a warm one (KServe issue 5062). A start-up probe ends as
    soon as the model answers.
    """
    for engine in engines(world):
        found = _unprotected(engine)
        if found is None or found.budget <= _least_seconds(engine, world):
            continue
        if found.budget < _usual_seconds(engine, world):
            yield Hit(
                at=engine.pod.owner,
                path=found.path,
                message=f"starting {engine.kind}: no startupProbe, and liveness waits for {_size(engine, world)} only "
                f"`{found.budget} s`",
                fix=f"add a startupProbe of at least {_advice(engine, world)} s (failureThreshold x periodSeconds)",
            )


@rule("rollout-deadline-short", Severity.WARNING)
def rollout_deadline_short(world: World) -> Iterator[Hit]:
    """A Deployment is called failed before its model is usually loaded.

    Once progressDeadlineSeconds (600 by default) have passed without a ready pod, Argo CD shows the Application as
    Degraded and `kubectl rollout status` gives up, while the weights are still on their way. Reckoned like the budget
    of a start-up probe; a deadline that somebody wrote down is also held against that budget.
    """
    for engine in engines(world):
        owner, path = engine.pod.owner, ("spec", "progressDeadlineSeconds")
        given = look(owner.value, *path) is not None
        deadline = whole(owner.value, *path) if given else _DEADLINE_SECONDS
        if owner.kind != "Deployment" or deadline is None:
            continue
        startup = probe(engine, "startupProbe")
        allowed = startup.budget if given and startup is not None and startup.is_known else 0
        seconds = max(_usual_seconds(engine, world), allowed)
        if deadline < seconds:
            said = "" if given else ", the default"
            yield Hit(
                at=owner,
                path=path if given else ("spec",),
                message=f"rolling out {owner.name}: the start may take {seconds} s, "
                f"the deadline is `{deadline} s`{said}",
                fix=f"set progressDeadlineSeconds above {seconds}",
            )
