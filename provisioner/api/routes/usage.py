"""Usage: hourly sums, by the labels that somebody asks for. A customer's key is told of its own tenant alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from provisioner.api.credentials import ServicesDependency, require_or_customer
from provisioner.api.find import narrowed
from provisioner.api.readable import readable
from provisioner.api.routes.parameters import Moment, PagingQuery, TenantQuery, cursor_of
from provisioner.catalog.fields import shown
from provisioner.domain.access import Principal, Scope
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.usage import UsageFilter, UsageLabel
from provisioner.metering.window import window
from provisioner.wire.usage import CustomerUsageView, UsagePage, UsageView

router = APIRouter(tags=["usage"])

Reader = Annotated[Principal, require_or_customer(Scope.USAGE_READ)]

_BELONGS_TO: Mapping[UsageLabel, tuple[UsageLabel, ...]] = {
    UsageLabel.TEAM: (UsageLabel.TENANT,),
    UsageLabel.ENDPOINT: (UsageLabel.TENANT,),
    UsageLabel.KEY: (UsageLabel.TENANT,),
}
"""What a label is told with: teams of one name are not one team, and who reads of an endpoint wants to know whose."""

_CUSTOMERS = (UsageLabel.ENDPOINT, UsageLabel.TEAM, UsageLabel.KEY, UsageLabel.HOUR)


async def wanted_usage(
    services: ServicesDependency,
    caller: Reader,
    tenant: TenantQuery = None,
    since: Annotated[Moment | None, Query(description="from this hour; without, 30 days before the end")] = None,
    until: Annotated[Moment | None, Query(description="to this hour; without, the present one")] = None,
    endpoint: Annotated[str | None, Query(max_length=127, description="only this endpoint's, by id")] = None,
) -> UsageFilter:
    """The filter of a request, as far as the caller reaches."""
    start, end = window(since, until, now=services.clock.now())
    endpoints, reached = _endpoints(endpoint, caller), narrowed(tenant, caller)
    return UsageFilter(since=start, until=end, tenant=reached, team=caller.team, endpoints=endpoints)


@router.get("/usage")
async def list_usage(
    services: ServicesDependency,
    caller: Reader,
    wanted: Annotated[UsageFilter, Depends(wanted_usage)],
    paging: PagingQuery,
    group: Annotated[
        str, Query(max_length=100, description="tenant, team, tier, endpoint, key and hour, joined by commas")
    ] = "endpoint",
) -> UsagePage:
    """Sums of whole hours, in the order of their labels. Endpoints and keys that are gone keep theirs."""
    labels = _labels(group, _CUSTOMERS if caller.is_customer else tuple(UsageLabel))
    found = await services.store.usage.page(wanted, labels, after=paging.after, limit=paging.limit)
    view = CustomerUsageView if caller.is_customer else UsageView
    items = tuple(view.model_validate(one) for one in readable(found.rows))
    return UsagePage(items=items, next_cursor=cursor_of(found.next))


def _labels(group: str, allowed: Collection[UsageLabel]) -> frozenset[UsageLabel]:
    """The labels of a text, with those that they belong to. RejectedError with a finding for every unknown one."""
    words = [word.strip() for word in group.split(",")]
    findings = tuple(
        Finding(
            reason="InvalidValue",
            message=f"reading group: unknown {shown(word)}",
            field="group",
            hint=unknown_name_hint(word, allowed),
        )
        for word in words
        if word not in allowed
    )
    if findings:
        raise RejectedError("reading parameters: not as they should be", reason="InvalidRequest", findings=findings)
    chosen = frozenset(map(UsageLabel, words))
    return chosen.union(*(_BELONGS_TO.get(label, ()) for label in chosen))


def _endpoints(endpoint: str | None, caller: Principal) -> tuple[str, ...] | None:
    """The endpoints to tell of, as far as the caller reaches; None for all of them."""
    if endpoint is None:
        return caller.endpoints
    return (endpoint,) if caller.endpoints is None or endpoint in caller.endpoints else ()
