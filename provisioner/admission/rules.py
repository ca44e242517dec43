"""The sense of a request: what it names exists, may be had, and fits. Every rule that can be judged is judged.

Works on a Draft, so that a request with a broken field still gets all other findings. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.admission.capacity import Choice, Need, choose_node_type, node_types_for
from provisioner.admission.custom import (
    allowed_registries,
    check_custom,
    check_image,
    check_model,
    check_sources,
    check_weights_in_image,
)
from provisioner.admission.form import Draft
from provisioner.admission.memory import MemoryNeed, reckon_memory
from provisioner.admission.names import check_names, check_scaling, unknown
from provisioner.admission.node_types import quota_denial
from provisioner.admission.parallelism import Parallelism, check_heads, spread_over_gpus
from provisioner.admission.rollout import plan_rollout
from provisioner.admission.serving import (
    ServingForm,
    check_adapters,
    check_extra_arguments,
    check_flags,
    check_pins,
    check_signal,
)
from provisioner.admission.traffic import check_traffic
from provisioner.admission.versions import check_versions
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.model import Model
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.serving import check_overrides
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.endpoint import Scaling
from provisioner.domain.finding import Finding, Severity, unknown_name_hint
from provisioner.domain.plan import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a request is judged against. `tenant_tiers` are the tiers that the tenant may use, None where nobody knows;
    `free_gpus` the free GPUs by node type, as far as known; `node_type` the one that an endpoint stands on already."""

    catalog: Catalog
    site: Site
    tenant_tiers: Collection[str] | None
    free_gpus: Mapping[str, int]
    node_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything a plan is made of."""

    tier: Tier
    model: Model
    runtime: Runtime
    serving: Mapping[str, Any]
    asked: ServingForm
    image: str
    parallelism: Parallelism
    memory: MemoryNeed
    choice: Choice
    rollout: Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engine:
    """A model, the runtime that serves it here, its image and the parameters of both master and request."""

    model: Model
    runtime: Runtime
    asked: ServingForm
    image: str
    serving: Mapping[str, Any]


def judge(draft: Draft, world: World) -> tuple[Decision | None, tuple[Finding, ...]]:
    """The decision about a draft, None where it is not complete or cannot be placed, and every finding."""
    catalog, site = world.catalog, world.site
    findings = [*check_names(draft, catalog, site, world.tenant_tiers), *check_scaling(draft, catalog)]
    tier = catalog.tiers.get(draft.tier or "")
    if tier is not None:
        findings.extend(check_versions(tier, site))
    findings.extend(_check_free_gpus(world))
    model = catalog.models.get(draft.model or "")
    if model is None:
        return None, tuple(findings)
    findings.extend(check_traffic(draft.traffic, model.kind.value))
    engine, more = _read_engine(draft, model, tier, world)
    findings.extend(more)
    if engine is None or tier is None or draft.region not in site.regions or draft.scaling is None:
        return None, tuple(findings)
    decision, more = _place(engine, tier, draft.region, draft.scaling, world)
    return decision, (*findings, *more)


def _read_engine(
    draft: Draft, model: Model, tier: Tier | None, world: World
) -> tuple[_Engine | None, tuple[Finding, ...]]:
    """What is to run, None where that cannot be told."""
    asked = draft.serving or ServingForm()
    runtimes = world.catalog.runtimes
    if asked.runtime is not None and asked.runtime not in runtimes:
        hint = unknown_name_hint(asked.runtime, runtimes)
        return None, (_unknown_runtime(asked.runtime, hint),)
    runtime = runtimes[asked.runtime or model.master.runtime]
    key = model.master.image if runtime.name == model.master.runtime else runtime.name
    image = asked.image or world.catalog.versions.image(key) or ""
    registries = allowed_registries(tier, world.catalog, world.site) if tier is not None else ()
    findings = [
        *check_model(model, runtime, site=world.site, tier=tier, catalog=world.catalog),
        *check_image(image, asked, site=world.site, key=key, registries=registries),
        *check_sources(asked, model, site=world.site),
        *(check_custom(asked, tier, tenant=draft.tenant) if tier is not None else ()),
        *(check_weights_in_image(asked, tier, key=key, runtime=runtime) if tier is not None else ()),
        *check_signal(asked, runtime, tier),
        *check_flags(asked.extra_args, runtime, image=image),
        *check_pins(asked.adapters),
    ]
    if draft.serving is None:
        return None, tuple(findings)
    wrong = [
        *check_overrides(asked.parameters, runtime, field="serving"),
        *_check_context(asked.parameters, model, runtime),
        *check_extra_arguments(asked.extra_args, runtime),
        *check_adapters(asked.adapters, runtime, served_name=model.master.served_name),
    ]
    if wrong:
        return None, (*findings, *wrong)
    master = {name: value for name, value in model.master.serving.items() if name in runtime.parameters}
    serving = {**master, **asked.parameters}
    engine = _Engine(model=model, runtime=runtime, asked=asked, image=image, serving=serving)
    return engine, tuple(findings)


def _place(
    engine: _Engine, tier: Tier, region: str, scaling: Scaling, world: World
) -> tuple[Decision | None, tuple[Finding, ...]]:
    """Where it runs and how it is spread there."""
    model, runtime, asked = engine.model, engine.runtime, engine.asked
    offered = node_types_for(world.site, region, tier, only=world.node_type)
    widest = max((offer.gpus for _, offer in offered), default=0)
    spread = spread_over_gpus(asked.parameters, model=model, runtime=runtime, gpus=asked.gpus, widest=widest)
    if isinstance(spread, Finding):
        return None, (spread,)
    serving = {**engine.serving, **_parallel_parameters(spread, engine)}
    findings = [*check_heads(spread, model, field=_gpus_field(asked)), *_check_gpus(spread, tier, engine)]
    if findings:
        return None, tuple(findings)
    memory = reckon_memory(model, runtime, serving, parallelism=spread, extra=asked.extra_args)
    need = Need(
        gpus=spread.gpus,
        memory=memory,
        hardware=model.master.hardware,
        min_replicas=max(scaling.min_replicas, 1),
        max_replicas=scaling.max_replicas,
        context_field=f"serving.{runtime.context_parameter}",
        shrink_hint=_shrink_hint(runtime),
    )
    free = {name: gpus * tier.accelerator.parts_per_gpu for name, gpus in world.free_gpus.items()}
    choice, findings_of_place = choose_node_type(
        world.site, region, tier=tier, need=need, free_gpus=free, only=world.node_type
    )
    if choice is None:
        return None, findings_of_place
    decision = Decision(
        tier=tier,
        model=model,
        runtime=runtime,
        serving=serving,
        asked=asked,
        image=engine.image,
        parallelism=spread,
        memory=memory,
        choice=choice,
        rollout=plan_rollout(
            choice,
            gpus=spread.gpus,
            replicas=need.min_replicas,
            weights_bytes=model.architecture.weights_bytes,
            free_gpus=free,
            quota=_node_quota(tier),
        ),
    )
    return decision, (*findings_of_place, *_check_room(decision, need, free), *_check_quota(tier, choice))


def _check_free_gpus(world: World) -> Iterator[Finding]:
    known = [f"{provider.name}.{offer.name}" for provider in world.site.providers for offer in provider.node_types]
    for name in world.free_gpus:
        if name not in known:
            finding = unknown("node type", name, known)
            yield Finding(
                reason="UnknownNodeType", message=finding.message, field=f"capacity.{name}", hint=finding.hint
            )


def _unknown_runtime(name: str, hint: str) -> Finding:
    message = f"reading runtime: unknown `{name}`"
    return Finding(reason="UnknownRuntime", message=message, field="serving.runtime", hint=hint)


def _check_context(serving: Mapping[str, Any], model: Model, runtime: Runtime) -> Iterator[Finding]:
    wanted = serving.get(runtime.context_parameter)
    if isinstance(wanted, int) and wanted > model.architecture.context_length:
        message = f"reading context: model `{model.id}` has {model.architecture.context_length}, found {wanted}"
        field = f"serving.{runtime.context_parameter}"
        yield Finding(reason="ContextTooLong", message=message, field=field, hint=f"lower {field}")


def _parallel_parameters(spread: Parallelism, engine: _Engine) -> Mapping[str, int]:
    """What the engine is told about it, where it differs from an engine's own default of one."""
    known = engine.runtime.parameters
    return {
        name: value
        for name, value in spread.parameters.items()
        if name in known and (value > 1 or name in engine.serving or name == engine.runtime.gpus_parameter)
    }


def _gpus_field(asked: ServingForm) -> str:
    told = next((name for name in ("tensorParallelSize", "pipelineParallelSize") if name in asked.parameters), None)
    return f"serving.{told or ('gpus' if asked.gpus is not None else 'tensorParallelSize')}"


def _check_gpus(spread: Parallelism, tier: Tier, engine: _Engine) -> Iterator[Finding]:
    if spread.gpus > tier.limits.max_gpus_per_replica:
        most = tier.limits.max_gpus_per_replica
        message = f"reading GPUs: tier `{tier.name}` allows {most} per replica, found {spread.gpus}"
        hint = f"lower {_gpus_field(engine.asked)}, or choose another model or tier"
        yield Finding(reason="TooManyGpus", message=message, field=_gpus_field(engine.asked), hint=hint)
    if spread.gpus == 0 and engine.model.master.hardware.gpus > 0:
        message = f"reading GPUs: model `{engine.model.id}` needs {engine.model.master.hardware.gpus}, found 0"
        yield Finding(reason="TooFewGpus", message=message, field="serving.gpus", hint="leave serving.gpus out")


def _check_room(decision: Decision, need: Need, free_gpus: Mapping[str, int]) -> Iterator[Finding]:
    """Findings about what fits only just, or not now."""
    choice, memory = decision.choice, decision.memory
    free = free_gpus.get(choice.name)
    if free is not None and free < need.gpus * need.min_replicas:
        message = (
            f"choosing node type: {need.min_replicas} replicas take {need.gpus * need.min_replicas} {choice.unit} of "
            f"`{choice.name}`, of which there are free: {free}"
        )
        hint = "free some, lower scaling.minReplicas, or choose another tier or region"
        yield Finding(reason="NotEnoughGpus", message=message, field=f"capacity.{choice.name}", hint=hint)
    if need.gpus and not memory.fits_all(choice.gpu_bytes):
        longest = memory.longest_context(choice.gpu_bytes)
        message = (
            f"planning GPU memory: {memory.requests} requests of {memory.tokens} tokens do not fit at the same time; "
            f"one of up to {longest} does: the engine puts the others back when memory runs out"
        )
        hint = f"lower {need.context_field} or the number of parallel requests, or use more GPUs"
        yield Finding(
            reason="CacheIsTight", message=message, field=need.context_field, hint=hint, severity=Severity.WARNING
        )


def _check_quota(tier: Tier, choice: Choice) -> Iterator[Finding]:
    limit, wanted = _node_quota(tier), choice.nodes + choice.burst_nodes
    denial = quota_denial("nodeclaims", wanted=wanted, limit=limit) if limit is not None else None
    if denial:
        message = f"reading quota: {denial}, needed {wanted}"
        hint = "lower scaling.maxReplicas, or raise the tier's quota"
        yield Finding(reason="QuotaTooSmall", message=message, field="scaling.maxReplicas", hint=hint)


def _node_quota(tier: Tier) -> int | None:
    limit = tier.quota.get("nodeclaims", "")
    return int(limit) if limit.isdecimal() else None


def _shrink_hint(runtime: Runtime) -> str:
    ways = (
        ("lower", runtime.context_parameter),
        ("lower", runtime.concurrency_parameter),
        ("change", runtime.gpus_parameter),
    )
    smaller = [f"{verb} serving.{name}" for verb, name in ways if name in runtime.overridable]
    return f"{', '.join(smaller)}, or choose another model, tier or region".removeprefix(", or ")
