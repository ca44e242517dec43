"""How commands end that a customer's key asked for: it sees its endpoint, and no operations."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from provisioner.cli.operation import parse_duration
from provisioner.cli.output import Format, print_view, say
from provisioner.cli.session import each
from provisioner.domain.errors import RejectedError

if TYPE_CHECKING:
    from provisioner.client.visible_calls import VisibleEndpoint

_FAILED = "Failed"


def finish_as_customer(
    endpoint: VisibleEndpoint, until: Collection[str], *, wait: bool, timeout: str, output: Format
) -> None:
    """Print the endpoint, after following it to one of these phases if asked. Exits 1 when it failed, 5 when that took
    longer than the timeout."""
    from provisioner.client import visible_calls

    if wait:
        seconds = parse_duration(timeout)
        views = each(visible_calls.follow_endpoint(endpoint.id, (*until, _FAILED), timeout_seconds=seconds))
        for view in views:
            endpoint = view
            say(f"{view.phase:<10}{view.stage or '':<12}{view.message}".rstrip())
    print_view(endpoint, output)
    if wait and endpoint.phase == _FAILED:
        raise RejectedError(f"waiting for endpoint `{endpoint.name}`: {endpoint.message}", reason=endpoint.reason)
    if not wait:
        say(f"hint: follow it with `tenantry endpoint show {endpoint.id}`")
