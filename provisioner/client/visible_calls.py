"""Requests that customers' keys may make too: each is answered with what the key may see, the provider's view or the
customer's. Pure.

For customers' programs, and for those that do not know whose key they have.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter

from provisioner.client.call import Call, Flow, Pause, Reply, Tell, get, pages, path_of, present
from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.wire.endpoint import CustomerEndpointView, EndpointPage, EndpointView
from provisioner.wire.operation import OperationView
from provisioner.wire.page import Page
from provisioner.wire.usage import CustomerUsageView, UsagePage, UsageView

POLL_SECONDS = 2.0
GONE = "Gone"
"""What `follow_endpoint` waits for as if it were a phase."""

VisibleEndpoint: TypeAlias = EndpointView | CustomerEndpointView
VisibleUsage: TypeAlias = UsageView | CustomerUsageView
T = TypeVar("T")

ENDPOINT = TypeAdapter[VisibleEndpoint](VisibleEndpoint)
"""Reads an endpoint in either view."""


def create_endpoint(body: Mapping[str, Any], *, idempotency_key: str) -> Call[OperationView | CustomerEndpointView]:
    """Ask for an endpoint; `body` has the form of REQUEST.yaml."""
    kinds = TypeAdapter[OperationView | CustomerEndpointView](OperationView | CustomerEndpointView)
    headers = {"Idempotency-Key": idempotency_key}
    return Call(method="POST", path="/endpoints", read=_either(kinds), body=body, headers=headers)


def delete_endpoint(
    reference: str, *, idempotency_key: str, if_match: str | None = None
) -> Call[OperationView | CustomerEndpointView]:
    """Give an endpoint up."""
    kinds = TypeAdapter[OperationView | CustomerEndpointView](OperationView | CustomerEndpointView)
    headers = present({"Idempotency-Key": idempotency_key, "If-Match": if_match})
    return Call(method="DELETE", path=path_of("endpoints", reference), read=_either(kinds), headers=headers)


def get_endpoint(reference: str) -> Call[VisibleEndpoint]:
    """One endpoint."""
    return Call(method="GET", path=path_of("endpoints", reference), read=_either(ENDPOINT))


def open_shell(reference: str) -> Call[bytes]:
    """Ask for a shell on an endpoint, which has none: RejectedError (`ApiOnly`) says what has."""
    return Call(method="POST", path=path_of("endpoints", reference, "shell"), read=lambda reply: reply.body)


def list_endpoints(tenant: str | None = None) -> Flow[VisibleEndpoint]:
    """Every endpoint that the key reaches, or a tenant's, without stages."""
    return pages(EndpointPage, "/endpoints", {"tenant": tenant})


def first_endpoints(tenant: str | None = None, *, limit: int) -> Call[Page[VisibleEndpoint]]:
    """The first endpoints of that list."""
    return get(EndpointPage, "/endpoints", {"tenant": tenant, "limit": str(limit)})


def list_usage(
    group: Collection[str] = ("endpoint",),
    *,
    tenant: str | None = None,
    endpoint: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Flow[VisibleUsage]:
    """Sums of whole hours under the labels of `group`: tenant, team, tier, endpoint, key, hour. Without `since` and
    `until` those of the last 30 days."""
    query = {"group": ",".join(group), "tenant": tenant, "endpoint": endpoint}
    moments = {name: moment.isoformat() for name, moment in (("since", since), ("until", until)) if moment}
    return pages(UsagePage, "/usage", query | moments)


def follow_endpoint(reference: str, until: Collection[str], *, timeout_seconds: float) -> Flow[VisibleEndpoint]:
    """The endpoint now and after every change, until its phase is one of `until`, or it is gone: for keys that may not
    follow the operation.

    An API that is away for a while is waited for. Raises RetryableError (`TimedOut`) after `timeout_seconds`, and
    NotFoundError where being gone is not among `until`.
    """
    deadline, seen = time.monotonic() + timeout_seconds, None
    while time.monotonic() < deadline:
        try:
            view: VisibleEndpoint = yield get_endpoint(reference)
        except RetryableError as error:
            yield Pause(error.retry_after_seconds or POLL_SECONDS)
            continue
        except NotFoundError:
            if GONE in until:
                return
            raise
        if view != seen:
            yield Tell(view)
        if view.phase in until:
            return
        seen = view
        yield Pause(POLL_SECONDS)
    raise RetryableError(
        f"waiting for endpoint `{reference}`: not {' or '.join(sorted(until))} after {timeout_seconds:g} s",
        reason="TimedOut",
        hint="it goes on; `tenantry endpoint show` tells how far it is",
    )


def _either(kinds: TypeAdapter[T]) -> Any:
    def read(reply: Reply) -> T:
        return kinds.validate_json(reply.body)

    return read
