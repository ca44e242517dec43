"""Two sides of a change from a few objects, for tests of what is compared."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from provisioner.domain.finding import Finding
from provisioner.domain.ids import EndpointId
from provisioner.domain.plan import EndpointPlan
from provisioner.preview.compare import compare
from provisioner.preview.report import FieldChange, ObjectChange, Report, TierReport
from provisioner.preview.sides import Fleet, Rendition, RunningEndpoint, Side, Subject, Unit
from tests.unit.rendering.examples import example_pack, example_plan

Object = dict[str, Any]
Edit = Callable[[Object], None]


def unit(name: str, *, tier: str = "dedicated", tenant: str = "acme") -> Unit:
    """The unit of an endpoint."""
    return Unit(subject=Subject.ENDPOINT, name=name, tier=tier, tenant=tenant)


def published(tier: str = "dedicated") -> Unit:
    """The unit of what is published with a tier."""
    return Unit(subject=Subject.TIER, name=tier, tier=tier)


def case(tier: str = "dedicated") -> Unit:
    """The unit of a tier's reference case."""
    return Unit(subject=Subject.CASE, name=f"{tier}/reference", tier=tier, tenant="acme")


def planned(name: str, *, tier: str = "dedicated", tenant: str = "acme", **runtime: Any) -> EndpointPlan:
    """The plan of a tier's example as an endpoint of some name."""
    made = example_plan(tier, tenant=tenant)
    return dataclasses.replace(made, endpoint=EndpointId(name), runtime=dataclasses.replace(made.runtime, **runtime))


def rendered(plan: EndpointPlan) -> tuple[Object, ...]:
    """Everything of an endpoint."""
    pack = example_pack()
    platform = [pack.project(plan.placement.parameters["tenant"], plan.tier), pack.customer_route(plan)]
    return (*platform, pack.instance(plan), *pack.tenant_objects(plan))


def edited(objects: tuple[Object, ...], kind: str, edit: Edit) -> tuple[Object, ...]:
    """Copies of the objects, those of a kind edited."""
    found = copy.deepcopy(objects)
    for one in found:
        if one["kind"] == kind:
            edit(one)
    return found


def running(
    name: str, *, tier: str = "dedicated", tenant: str = "acme", version: str = "1.0.0", replicas: int = 1
) -> RunningEndpoint:
    """An endpoint of the fleet."""
    request = {"tier": tier, "tenant": tenant, "name": name}
    return RunningEndpoint(
        id=EndpointId(name), tenant=tenant, request=request, template_version=version, replicas=replicas
    )


def report(
    base: Mapping[Unit, Rendition],
    head: Mapping[Unit, Rendition],
    *,
    plans: Mapping[Unit, EndpointPlan] | None = None,
    **fleet: Any,
) -> Report:
    """The two sides compared; `plans` are those of endpoints that both sides make alike."""
    old, new = (
        Side(label=label, units=units, plans=plans or {}) for label, units in (("main", base), ("change", head))
    )
    return compare(old, new, fleet=Fleet(**fleet))


def only(tier: TierReport) -> ObjectChange:
    """The one object that differs in a tier."""
    assert len(tier.changes) == 1, [str(change) for change in tier.changes]
    return tier.changes[0]


def said(change: ObjectChange) -> list[tuple[str, str | None, str | None]]:
    """Path, before and after of every field."""
    return [(field.path, field.before, field.after) for field in change.fields]


def field(change: ObjectChange, path: str) -> FieldChange:
    """One field by its path."""
    return next(found for found in change.fields if found.path == path)


def wrong(message: str, **rest: Any) -> Finding:
    """A finding."""
    return Finding(reason="SomethingWrong", message=message, **rest)
