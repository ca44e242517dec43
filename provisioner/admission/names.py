"""What a request names: tenant, tier, region, model, hostname, and bounds on replicas. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from provisioner.admission.form import Draft
from provisioner.admission.serving import SIGNALS_AT_ZERO, Signal
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.fields import shown
from provisioner.catalog.offer import offered_models
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Autoscaling, Tenancy, Tier
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.tenant import POOL_TENANT


def check_names(draft: Draft, catalog: Catalog, site: Site, tenant_tiers: Collection[str] | None) -> Iterator[Finding]:
    """Findings about names that nobody knows or that may not be used."""
    if draft.tenant == POOL_TENANT and _is_without_pools(draft.tier, catalog):
        message = f"reading tenant: `{POOL_TENANT}` has the pools of tiers that share them, and nothing else"
        hint = "name another tenant, or a tier whose tenancy is `pool`"
        yield Finding(reason="ReservedName", message=message, field="tenant", hint=hint)
    if draft.tier is not None and draft.tier not in catalog.tiers:
        yield unknown("tier", draft.tier, catalog.tiers)
    elif draft.tier is not None and tenant_tiers is not None and draft.tier not in tenant_tiers:
        message = f"reading tier: tenant `{draft.tenant}` may not use {shown(draft.tier)}"
        hint = f"it may use: {', '.join(sorted(tenant_tiers))}; `tenantry tenant update {draft.tenant}` gives it others"
        yield Finding(reason="TierNotAllowed", message=message, field="tier", hint=hint)
    if draft.region is not None and draft.region not in site.regions:
        yield unknown("region", draft.region, site.regions)
    if draft.model is not None and draft.model not in catalog.models:
        yield unknown("model", draft.model, offered_models(catalog, site))
    elif draft.model in catalog.archived:
        message = f"reading model: it is archived, and offered for nothing new: {shown(draft.model)}"
        hint = unknown_name_hint(draft.model, offered_models(catalog, site))
        yield Finding(reason="ModelArchived", message=message, field="model", hint=hint)
    if draft.name is not None and draft.tenant is not None:
        yield from _check_hostnames(draft.name, draft.tenant, site)


def _is_without_pools(tier: str | None, catalog: Catalog) -> bool:
    found = catalog.tiers.get(tier or "")
    return found is not None and found.tenancy is not Tenancy.POOL


def _check_hostnames(name: str, tenant: str, site: Site) -> Iterator[Finding]:
    public = site.public.hostname.format(endpoint=name, tenant=tenant)
    if len(public) > 253 or any(len(label) > 63 for label in public.split(".")):
        message = f"reading name: it makes a hostname that is too long: {shown(public)}"
        yield Finding(reason="NameTooLong", message=message, field="name", hint="choose a shorter name")


def check_scaling(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Findings about the bounds on replicas."""
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
    if draft.serving is not None:
        signals = draft.serving.signals or tuple(map(Signal, tier.signals if tier else ()))
        yield from _check_signals(low, signals, tier)


def _check_signals(low: int, signals: tuple[Signal, ...], tier: Tier | None) -> Iterator[Finding]:
    """Findings about an endpoint that could not wake, or whose scaler cannot look at what it should."""
    if tier is not None and tier.autoscaling is Autoscaling.HPA:
        if low == 0:
            message = f"reading scaling: tier `{tier.name}` scales by HorizontalPodAutoscaler, which needs a replica"
            hint = "set scaling.minReplicas to 1, or choose a tier that scales by KEDA"
            yield Finding(reason="CannotWake", message=message, field="scaling.minReplicas", hint=hint)
        elif Signal.GATEWAY_QUEUE in signals:
            message = f"reading signal: tier `{tier.name}` scales by metrics of pods, found `{Signal.GATEWAY_QUEUE}`"
            hint = "name another signal, or choose a tier that scales by KEDA"
            yield Finding(reason="SignalNotScaled", message=message, field="serving.autoscalingSignal", hint=hint)
    elif low == 0 and not set(signals) <= SIGNALS_AT_ZERO:
        message = (
            "reading scaling: an endpoint that sleeps wakes only by a signal that exists without replicas, found "
            f"{', '.join(signals) or 'none'}"
        )
        hint = "set serving.autoscalingSignal to gateway-queue, or scaling.minReplicas to 1"
        yield Finding(reason="CannotWake", message=message, field="scaling.minReplicas", hint=hint)


def unknown(field: str, name: str, known: Collection[str]) -> Finding:
    """The finding about a name that nobody knows, with the nearest one."""
    message = f"reading {field}: unknown {shown(name)}"
    return Finding(reason=f"Unknown{field.title()}", message=message, field=field, hint=unknown_name_hint(name, known))
