"""From a request to a plan, or to every finding against it.

Called by the REST API, by `tenantry plan` and by previews; the same input gives the same bytes. That a name is free is
the store's to know.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.admission.custom import WEIGHTS_NOT_NAMED
from provisioner.admission.form import (
    Assumptions,
    Draft,
    draft_of,
    read_form,
    read_plan_form,
    sound_assumptions,
    sound_part,
)
from provisioner.admission.planning import make_plan
from provisioner.admission.rules import Decision, World, judge
from provisioner.admission.serving import SIGNALS_OF_GPUS
from provisioner.admission.versions import needed_features
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.catalog.tier import NodeMode, Tier
from provisioner.domain.endpoint import EndpointRequest
from provisioner.domain.errors import InvariantError, RejectedError
from provisioner.domain.finding import Finding, Severity
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.groups import SIGNALS_FIELD, SITE_INCOMPLETE, lacking_fields
from provisioner.rendering.shape import known_signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a request would come to: every finding, errors and warnings, and the plan where one can be made.

    There may be a plan beside an error: what would be made if it were not for that. `features` are the licensed
    features of the Platform that the plan uses.
    """

    plan: EndpointPlan | None = None
    findings: tuple[Finding, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def renders(self) -> bool:
        """Whether there is a plan, and site and model name all that its templates ask for."""
        lacking = {SITE_INCOMPLETE, WEIGHTS_NOT_NAMED}
        return self.plan is not None and all(finding.reason not in lacking for finding in self.findings)


def parse_request(raw: Any) -> EndpointRequest:
    """The request in a JSON value. Raises RejectedError with every finding about its form."""
    asked = read_form(raw)
    if isinstance(asked, tuple):
        raise _rejected(asked)
    return asked.request


def plan_endpoint(
    request: EndpointRequest,
    *,
    catalog: Catalog,
    site: Site,
    endpoint_id: EndpointId,
    tenant_tiers: Collection[str] | None = None,
) -> EndpointPlan:
    """The plan of a request. `tenant_tiers` are the tiers that the tenant may use, None where nobody knows.

    Raises RejectedError with every error.
    """
    world = World(catalog=catalog, site=site, tenant_tiers=tenant_tiers, free_gpus={})
    return _plan(request, draft_of(request), world, endpoint_id)


def admit_endpoint(
    raw: Any,
    *,
    catalog: Catalog,
    site: Site,
    endpoint_id: EndpointId,
    tenant_tiers: Collection[str] | None = None,
    node_type: str | None = None,
) -> tuple[EndpointRequest, EndpointPlan]:
    """Request and plan of a JSON value; `node_type` is the one that an endpoint which is changed stands on.

    Raises RejectedError with the errors about form and sense together.
    """
    asked = read_form(raw)
    world = World(catalog=catalog, site=site, tenant_tiers=tenant_tiers, free_gpus={}, node_type=node_type)
    if isinstance(asked, tuple):
        _, findings = judge(sound_part(raw, asked), world)
        raise _rejected((*asked, *_errors(findings)))
    return asked.request, _plan(asked.request, asked.draft, world, endpoint_id)


def forecast_endpoint(raw: Any, *, catalog: Catalog, site: Site) -> Forecast:
    """What a JSON value, a request with assumptions about the installation, would come to. Never raises."""
    form = read_plan_form(raw)
    if isinstance(form, tuple):
        sound = sound_assumptions(raw, form)
        assumed = _assume(site, sound)
        world = World(catalog=catalog, site=assumed, tenant_tiers=None, free_gpus=sound.free_gpus)
        _, findings = judge(sound_part(raw, form), world)
        return Forecast(findings=(*form, *findings))
    assumed = _assume(site, form.assumptions)
    world = World(catalog=catalog, site=assumed, tenant_tiers=None, free_gpus=form.assumptions.free_gpus)
    decision, findings = judge(form.draft, world)
    if decision is None:
        return Forecast(findings=findings)
    plan = make_plan(form.request, decision, site=assumed, endpoint_id=preview_id(raw))
    provider = plan.capacity.node_type.partition(".")[0]
    features = needed_features(decision.tier, assumed, provider=provider)
    more = (*_check_site(plan, decision, assumed), *_check_pool(plan), *_check_queue(decision.tier, assumed))
    more += tuple(_check_scaler(plan, decision))
    return Forecast(plan=plan, findings=(*findings, *more), features=features)


def preview_id(raw: Any) -> EndpointId:
    """The id that a plan shows while nobody creates the endpoint: always the same for a tenant and a name."""
    named = (raw.get("tenant"), raw.get("name")) if isinstance(raw, Mapping) else ()
    digest = hashlib.sha256(repr(named).encode("utf-8", "replace")).digest()
    return EndpointId(f"ep-{base64.b32encode(digest)[:10].decode().lower()}")


def assume(site: Site, raw: Any) -> Site:
    """The site as a request's assumptions have it, as far as they can be read."""
    form = read_plan_form(raw)
    return _assume(site, sound_assumptions(raw, form) if isinstance(form, tuple) else form.assumptions)


def _assume(site: Site, assumptions: Assumptions) -> Site:
    told = {
        "profile": assumptions.profile,
        "kubernetes_version": assumptions.kubernetes_version,
        "platform_version": assumptions.platform_version,
    }
    changes = {name: value for name, value in told.items() if value is not None}
    return site.model_copy(update=changes) if changes else site


def _plan(request: EndpointRequest, draft: Draft, world: World, endpoint_id: EndpointId) -> EndpointPlan:
    decision, findings = judge(draft, world)
    plan = make_plan(request, decision, site=world.site, endpoint_id=endpoint_id) if decision else None
    if decision and plan:
        findings = (*findings, *_check_site(plan, decision, world.site))
    if errors := _errors(findings):
        raise _rejected(errors)
    if plan is None:
        raise InvariantError("planning endpoint: no decision and no finding")
    return plan


def _check_site(plan: EndpointPlan, decision: Decision, site: Site) -> Iterator[Finding]:
    """Findings about what the site has to name before the plan can be rendered."""
    for lacking in lacking_fields(plan, decision.tier, site):
        is_asked = lacking == SIGNALS_FIELD and decision.asked.signals
        message = f"reading site: it does not name what tier `{decision.tier.name}` needs here: `{lacking}`"
        hint = f"add `{lacking}` to site.yaml (docs/reference/site.md tells what it is), or choose another tier"
        field = "serving.autoscalingSignal" if is_asked else "tier"
        yield Finding(reason=SITE_INCOMPLETE, message=message, field=field, hint=hint)


def _check_pool(plan: EndpointPlan) -> Iterator[Finding]:
    if plan.is_alias:
        message = f"planning endpoint: its replicas are those of pool `{plan.pool}`, whatever `scaling` says"
        hint = f"the pool has to be there: `tenantry endpoint inspect {plan.pool}`"
        yield Finding(reason="ServedByPool", message=message, field="scaling", hint=hint, severity=Severity.WARNING)


def _check_scaler(plan: EndpointPlan, decision: Decision) -> Iterator[Finding]:
    """An engine without metrics is scaled by its GPUs, which nobody measures in a tenant cluster on shared nodes."""
    runtime = plan.runtime
    signals = known_signals(runtime.signals, decision.runtime)
    is_blind = decision.tier.node_mode is NodeMode.SHARED and set(signals) <= SIGNALS_OF_GPUS
    if is_blind and not plan.is_alias and runtime.min_replicas < runtime.max_replicas:
        message = (
            f"planning endpoint: runtime `{decision.runtime.name}` publishes none of {', '.join(runtime.signals)}, and "
            f"nobody measures GPUs of shared nodes: there are {runtime.min_replicas} replicas, whatever comes"
        )
        hint = "set scaling.minReplicas to what the load needs, or choose a tier with nodes of its own"
        yield Finding(
            reason="NeverScales", message=message, field="scaling.maxReplicas", hint=hint, severity=Severity.WARNING
        )


def _check_queue(tier: Tier, site: Site) -> Iterator[Finding]:
    """Every gateway orders the queue that it has in its own memory, and takes one slot at least."""
    slots, gateways = tier.limits.concurrent_requests, site.installation.gateways if site.installation else 1
    if slots is None or gateways == 1:
        return
    message = f"planning endpoint: the requests of tier `{tier.name}` wait in each gateway's own queue: {gateways}"
    if slots < gateways:
        message = f"planning endpoint: tier `{tier.name}` has fewer slots than gateways: {slots} < {gateways}"
    hint = "set installation.gateways to 1 in site.yaml where one order must hold for all requests"
    yield Finding(reason="QueuePerGateway", message=message, field="tier", hint=hint, severity=Severity.WARNING)


def _errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity is Severity.ERROR)


def _rejected(findings: tuple[Finding, ...]) -> RejectedError:
    return RejectedError(f"admitting endpoint: {len(findings)} finding(s)", reason="InvalidRequest", findings=findings)
