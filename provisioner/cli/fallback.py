"""`tenantry fallback`: where an endpoint's requests go while it has no healthy replica."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from provisioner.cli.operation import IdempotencyOption, new_idempotency_key
from provisioner.cli.output import Format, OutputOption, print_json, print_table, print_view, say
from provisioner.cli.session import collect, each, send

app = typer.Typer(name="fallback")

EndpointArgument = Annotated[str, typer.Argument(help="ep-… or tenant/name.")]


@app.command("list")
def list_fallbacks(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List which endpoints may send requests outside, and under which policy.

    Example: tenantry fallback list --tenant acme
    """
    from provisioner.client import fallback_calls

    found = collect(fallback_calls.list_fallbacks(tenant))
    if output is Format.JSON:
        print_json([one.model_dump(mode="json", by_alias=True) for one in found])
        return
    print_table(
        ("endpoint", "tenant", "policy", "enabled", "acknowledged by", "changed"),
        [(f.endpoint, f.tenant, f.policy, f.enabled, f.acknowledged_by, f.changed_at) for f in found],
    )


@app.command("show")
def show_fallback(endpoint: EndpointArgument, output: OutputOption = Format.TABLE) -> None:
    """Show what was chosen for an endpoint.

    Example: tenantry fallback show acme/chat
    """
    from provisioner.client import fallback_calls

    print_view(send(fallback_calls.get_fallback(endpoint)), output)


@app.command("choose")
def choose_fallback(
    endpoint: EndpointArgument,
    policy: Annotated[str, typer.Argument(help="A policy of the site.")],
    enabled: Annotated[bool, typer.Option("--enable/--disable", help="Whether requests may go outside now.")] = True,
    acknowledge_privacy: Annotated[
        bool, typer.Option("--acknowledge-privacy", help="Answer for prompts and answers leaving the installation.")
    ] = False,
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Choose a policy for an endpoint. Nothing is sent until it is enabled and its privacy is acknowledged.

    Example: tenantry fallback choose acme/chat partner --acknowledge-privacy
    """
    from provisioner.client import fallback_calls

    call = fallback_calls.choose_fallback(
        endpoint,
        policy,
        enabled=enabled,
        privacy_acknowledged=acknowledge_privacy,
        idempotency_key=idempotency_key or new_idempotency_key(),
    )
    print_view(send(call), output)


@app.command("remove")
def remove_fallback(endpoint: EndpointArgument, idempotency_key: IdempotencyOption = None) -> None:
    """Take an endpoint's choice back: nothing of it goes outside any more.

    Example: tenantry fallback remove acme/chat
    """
    from provisioner.client import fallback_calls

    send(fallback_calls.remove_fallback(endpoint, idempotency_key=idempotency_key or new_idempotency_key()))
    say(f"nothing of {endpoint} goes outside any more")


@app.command("requests")
def list_requests(
    endpoint: EndpointArgument,
    limit: Annotated[int, typer.Option(min=1, help="The newest, at most so many.")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the requests of an endpoint that went outside, and why others did not, newest first.

    Example: tenantry fallback requests acme/chat --limit 20
    """
    from provisioner.client import fallback_calls

    found = list(islice(each(fallback_calls.list_requests(endpoint)), limit))
    if output is Format.JSON:
        print_json([one.model_dump(mode="json", by_alias=True) for one in found])
        return
    print_table(
        ("at", "key", "request", "target", "denial", "status", "outcome"),
        [(r.at, r.key, r.request_id, r.target, r.denial, r.status, r.outcome) for r in found],
    )
