"""The sense of a request: what it names exists, may be had, and fits. Every rule that can be judged is judged.

Works on a Draft, so that a request with a broken field still gets all other findings. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.admission.capacity import Choice, Need, choose_node_type
from provisioner.admission.form import Draft
from provisioner.admission.memory import MemoryNeed, reckon_memory
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.fields import shown
from provisioner.catalog.model import Model
from provisioner.catalog.offer import is_in_default_catalog, offered_models
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.serving import check_overrides
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.finding import Finding, unknown_name_hint

POOL_TENANT = "pool"
"""The name under which a shared pool stands where tenants' names stand; no tenant may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything a plan is made of, once nothing was found against it."""

    tier: Tier
    model: Model
    runtime: Runtime
    serving: Mapping[str, Any]
    gpus: int
    memory: MemoryNeed
    choice: Choice


def judge(
    draft: Draft, *, catalog: Catalog, site: Site, tenant_tiers: Collection[str] | None
) -> tuple[Decision | None, tuple[Finding, ...]]:
    """The decision about a draft, None unless it is complete and sound, and every finding.

    `tenant_tiers` are the tiers that the tenant may use; None where nobody knows.
    """
    findings = [*_check_names(draft, catalog, site, tenant_tiers), *_check_scaling(draft, catalog)]
    tier = catalog.tiers.get(draft.tier or "")
    model = catalog.models.get(draft.model or "")
    if model is None:
        return None, tuple(findings)
    runtime = catalog.runtimes[model.master.runtime]
    findings.extend(_check_model(model, runtime, site=site, tier=tier, catalog=catalog))
    if draft.serving is None:
        return None, tuple(findings)
    wrong = (*check_overrides(draft.serving, runtime, field="serving"), *_check_context(draft.serving, model, runtime))
    findings.extend(wrong)
    if wrong or tier is None or draft.region not in site.regions or draft.scaling is None:
        return None, tuple(findings)
    serving = {**model.master.serving, **draft.serving}
    gpus = serving.get(runtime.gpus_parameter or "", model.master.hardware.gpus)
    memory = reckon_memory(model, runtime, serving)
    hint = _shrink_hint(runtime)
    need = Need(
        gpus=gpus,
        memory=memory,
        hardware=model.master.hardware,
        replicas=draft.scaling.max_replicas,
        shrink_hint=hint,
    )
    if gpus > tier.limits.max_gpus_per_replica:
        message = (
            f"reading GPUs: tier `{tier.name}` allows {tier.limits.max_gpus_per_replica} per replica, found {gpus}"
        )
        findings.append(Finding(reason="TooManyGpus", message=message, field="model", hint=hint))
    choice = choose_node_type(site, draft.region, tier=tier, need=need)
    if isinstance(choice, Finding):
        return None, (*findings, choice)
    findings.extend(_check_quota(tier, choice))
    return (
        Decision(tier=tier, model=model, runtime=runtime, serving=serving, gpus=gpus, memory=memory, choice=choice),
        tuple(findings),
    )


def _check_names(draft: Draft, catalog: Catalog, site: Site, tenant_tiers: Collection[str] | None) -> Iterator[Finding]:
    if draft.tenant == POOL_TENANT:
        message = f"reading tenant: the name is reserved: `{POOL_TENANT}`"
        yield Finding(reason="ReservedName", message=message, field="tenant", hint="name another tenant")
    if draft.tier is not None and draft.tier not in catalog.tiers:
        yield _unknown("tier", draft.tier, catalog.tiers)
    elif draft.tier is not None and tenant_tiers is not None and draft.tier not in tenant_tiers:
        message = f"reading tier: tenant `{draft.tenant}` may not use {shown(draft.tier)}"
        hint = f"it may use: {', '.join(sorted(tenant_tiers)) or 'none'}"
        yield Finding(reason="TierNotAllowed", message=message, field="tier", hint=hint)
    if draft.region is not None and draft.region not in site.regions:
        yield _unknown("region", draft.region, site.regions)
    if draft.model is not None and draft.model not in catalog.models:
        yield _unknown("model", draft.model, offered_models(catalog, site))
    if draft.name is not None and draft.tenant is not None:
        hostname = site.public.hostname.format(endpoint=draft.name, tenant=draft.tenant)
        if len(hostname) > 253 or any(len(label) > 63 for label in hostname.split(".")):
            message = f"reading name: it makes a hostname that is too long: {shown(hostname)}"
            yield Finding(reason="NameTooLong", message=message, field="name", hint="choose a shorter name")


def _check_scaling(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    if draft.scaling is None:
        return
    low, high = draft.scaling.min_replicas, draft.scaling.max_replicas
    if low > high:
        message = f"reading scaling: minReplicas must not be above maxReplicas {high}, found {low}"
        hint = "lower scaling.minReplicas or raise scaling.maxReplicas"
        yield Finding(reason="MinAboveMax", message=message, field="scaling.minReplicas", hint=hint)
    tier = catalog.tiers.get(draft.tier or "")
    if tier is not None and high > tier.limits.max_replicas:
        message = f"reading scaling: tier `{tier.name}` allows {tier.limits.max_replicas} replicas, found {high}"
        hint = "lower scaling.maxReplicas, or choose another tier"
        yield Finding(reason="TooManyReplicas", message=message, field="scaling.maxReplicas", hint=hint)


def _check_model(
    model: Model, runtime: Runtime, *, site: Site, tier: Tier | None, catalog: Catalog
) -> Iterator[Finding]:
    image = catalog.versions.images[model.master.image]
    if not is_in_default_catalog(model, site):
        message = f"reading model: sites of profile `{site.profile}` do not offer `{model.id}`"
        hint = unknown_name_hint(model.id, offered_models(catalog, site))
        yield Finding(reason="ModelNotOffered", message=message, field="model", hint=hint)
    if not site.allows_runtime(runtime):
        message = f"reading model: this site does not run its runtime: `{runtime.name}`"
        hint = f"sites of profile `{site.profile}` run: {_allowed_runtimes(site, catalog)}"
        yield Finding(reason="RuntimeNotAllowed", message=message, field="model", hint=hint)
    if tier is not None and runtime.name not in tier.runtimes:
        message = f"reading model: tier `{tier.name}` does not run its runtime: `{runtime.name}`"
        hint = f"tier `{tier.name}` runs: {', '.join(tier.runtimes)}"
        yield Finding(reason="RuntimeNotInTier", message=message, field="model", hint=hint)
    if site.is_retired(image):
        message = f"reading model: its image is retired: `{image}`"
        hint = f"choose another model, or give `images.{model.master.image}` in versions.yaml another image"
        yield Finding(reason="ImageRetired", message=message, field="model", hint=hint)
    if site.profile == "prod" and "@sha256:" not in image:
        message = f"reading model: its image has no digest: `{image}`"
        hint = f"add the digest to `images.{model.master.image}` in versions.yaml"
        yield Finding(reason="ImageNotPinned", message=message, field="model", hint=hint)


def _check_context(serving: Mapping[str, Any], model: Model, runtime: Runtime) -> Iterator[Finding]:
    wanted = serving.get(runtime.context_parameter)
    if isinstance(wanted, int) and wanted > model.architecture.context_length:
        message = f"reading context: model `{model.id}` has {model.architecture.context_length}, found {wanted}"
        field = f"serving.{runtime.context_parameter}"
        yield Finding(reason="ContextTooLong", message=message, field=field, hint=f"lower {field}")


def _check_quota(tier: Tier, choice: Choice) -> Iterator[Finding]:
    limit = tier.quota.get("nodeclaims", "")
    if limit.isdecimal() and choice.nodes > int(limit):
        message = f"reading quota: a project of tier `{tier.name}` has {limit} nodeclaims, needed {choice.nodes}"
        hint = "lower scaling.maxReplicas"
        yield Finding(reason="QuotaTooSmall", message=message, field="scaling.maxReplicas", hint=hint)


def _shrink_hint(runtime: Runtime) -> str:
    ways = (
        ("lower", runtime.context_parameter),
        ("lower", runtime.concurrency_parameter),
        ("change", runtime.gpus_parameter),
    )
    smaller = [f"{verb} serving.{name}" for verb, name in ways if name in runtime.overridable]
    return f"{', '.join(smaller)}, or choose another model, tier or region".removeprefix(", or ")


def _allowed_runtimes(site: Site, catalog: Catalog) -> str:
    return ", ".join(name for name, runtime in sorted(catalog.runtimes.items()) if site.allows_runtime(runtime))


def _unknown(field: str, name: str, known: Collection[str]) -> Finding:
    message = f"reading {field}: unknown {shown(name)}"
    return Finding(reason=f"Unknown{field.title()}", message=message, field=field, hint=unknown_name_hint(name, known))
