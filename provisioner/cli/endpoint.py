"""`tenantry endpoint`: what a customer owns and calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli import endpoint_changes, endpoint_watch
from provisioner.cli.operation import (
    IdempotencyOption,
    MatchOption,
    TimeoutOption,
    WaitOption,
    finish,
    new_idempotency_key,
)
from provisioner.cli.output import (
    Format,
    OutputOption,
    print_error,
    print_fields,
    print_json,
    print_table,
    print_view,
    say,
)
from provisioner.cli.references import ReferenceArgument
from provisioner.cli.session import collect, send
from provisioner.domain.errors import RejectedError

if TYPE_CHECKING:
    from provisioner.client.call import Tagged
    from provisioner.client.visible_calls import VisibleEndpoint
    from provisioner.wire.endpoint import EndpointView

app = typer.Typer(name="endpoint")


@app.command("create")
def create_endpoint(
    file: Annotated[Path, typer.Option("--file", "-f", help="REQUEST.yaml, or - for standard input.")],
    wait: WaitOption = False,
    timeout: TimeoutOption = "30m",
    idempotency_key: IdempotencyOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create an endpoint; answers with the operation at once.

    \b
    A complete REQUEST.yaml:
      name: chat
      tenant: acme
      model: gemma-3-270m
      region: local
      tier: dedicated
      scaling: {minReplicas: 1, maxReplicas: 2}
      serving: {maxModelLen: 1024}

    Example: tenantry endpoint create -f REQUEST.yaml --wait
    """
    from provisioner.cli.customer import finish_as_customer
    from provisioner.cli.requestfile import read_request
    from provisioner.client import endpoint_calls, visible_calls
    from provisioner.wire.endpoint import CustomerEndpointView

    request = read_request(file)
    key = idempotency_key or new_idempotency_key()
    try:
        answer = send(visible_calls.create_endpoint(request.body, idempotency_key=key))
    except RejectedError as error:
        print_error(error, file=request.name, lines=request.lines)
        raise typer.Exit(1) from error
    if isinstance(answer, CustomerEndpointView):
        finish_as_customer(answer, ("Ready",), wait=wait, timeout=timeout, output=output)
        return
    finish(answer, wait=wait, timeout=timeout, output=output)
    if wait:
        endpoint = send(endpoint_calls.get_endpoint(answer.subject))
        say(f"hint: it answers at {endpoint.url} as model `{endpoint.model.alias}`")


@app.command("list")
def list_endpoints(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List the endpoints that the key reaches.

    Example: tenantry endpoint list --tenant acme
    """
    from provisioner.client import visible_calls

    endpoints = collect(visible_calls.list_endpoints(tenant))
    if output is Format.JSON:
        print_json([endpoint.model_dump(mode="json", by_alias=True) for endpoint in endpoints])
        return
    print_table(
        ("endpoint", "name", "model", "phase", "stage", "url"),
        [_row(endpoint) for endpoint in endpoints],
    )
    if not endpoints:
        say("hint: there is none yet; `tenantry endpoint create -f REQUEST.yaml` makes one, --help shows how")


def _row(endpoint: VisibleEndpoint) -> tuple[str, ...]:
    from provisioner.wire.endpoint import CustomerEndpointView

    if isinstance(endpoint, CustomerEndpointView):
        name, model = endpoint.name, endpoint.model
    else:
        name, model = f"{endpoint.tenant}/{endpoint.name}", endpoint.model.id
    return endpoint.id, name, model, endpoint.phase, endpoint.stage or "-", endpoint.url


@app.command("show")
def show_endpoint(reference: ReferenceArgument, output: OutputOption = Format.TABLE) -> None:
    """Show an endpoint: status with its stages, URL, model, and the ids behind it. A customer's key is shown status,
    stage, URL, usage and errors.

    Example: tenantry endpoint show acme/chat
    """
    from provisioner.client import visible_calls

    print_view(send(visible_calls.get_endpoint(reference)), output)


@app.command("inspect")
def inspect_endpoint(reference: ReferenceArgument, output: OutputOption = Format.TABLE) -> None:
    """Show where an endpoint stands: project, tenant cluster, node claims, template version and route, and the etag
    for `--if-match`. For the provider's keys.

    Example: tenantry endpoint inspect acme/chat
    """
    from provisioner.client import endpoint_calls
    from provisioner.client.call import tagged

    fields = _place(send(tagged(endpoint_calls.get_endpoint(reference))))
    if output is Format.JSON:
        print_json(fields)
    else:
        print_fields(fields)


def _place(found: Tagged[EndpointView]) -> dict[str, object]:
    view = found.value
    name = f"{view.tenant}/{view.name}"
    behind = view.identifiers.model_dump(mode="json", by_alias=True)
    return {"endpoint": view.id, "name": name, "tier": view.tier, "region": view.region, **behind, "etag": found.etag}


@app.command("export")
def export_endpoints() -> None:
    """Print what runs as fleet.json: every endpoint with its request, the template version it pins and its replicas.

    `tenantry preview --against fleet.json` says what a change does to them. Free GPUs by node type may be added under
    `capacity`.

    Example: tenantry endpoint export > fleet.json
    """
    from provisioner.client import endpoint_calls

    print_json(send(endpoint_calls.get_fleet()).model_dump(mode="json", by_alias=True, exclude_none=True))


@app.command("delete")
def delete_endpoint(
    reference: ReferenceArgument,
    wait: WaitOption = False,
    timeout: TimeoutOption = "30m",
    idempotency_key: IdempotencyOption = None,
    if_match: MatchOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete an endpoint and give everything behind it back.

    Example: tenantry endpoint delete acme/chat --wait
    """
    from provisioner.cli.customer import finish_as_customer
    from provisioner.client import visible_calls
    from provisioner.wire.endpoint import CustomerEndpointView

    key = idempotency_key or new_idempotency_key()
    answer = send(visible_calls.delete_endpoint(reference, idempotency_key=key, if_match=if_match))
    if isinstance(answer, CustomerEndpointView):
        finish_as_customer(answer, (visible_calls.GONE,), wait=wait, timeout=timeout, output=output)
    else:
        finish(answer, wait=wait, timeout=timeout, output=output)


endpoint_changes.register(app)
endpoint_watch.register(app)


@app.command("chat")
def chat_endpoint(
    reference: Annotated[str, typer.Argument(help="ep-… or tenant/name; the bare name together with --url.")],
    text: Annotated[str, typer.Argument(help="What to say.")],
    url: Annotated[str | None, typer.Option(help="The endpoint's URL; looked up when left out.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=100_000, help="Longest answer.")] = 256,
) -> None:
    """Say something to a chat endpoint and stream the answer, with the customer's key of TENANTRY_API_KEY; an open
    endpoint needs none.

    Example: TENANTRY_API_KEY=tnt-… tenantry endpoint chat acme/chat "Hello"
    """
    import asyncio

    from provisioner.client import visible_calls
    from provisioner.client.inference import stream_chat
    from provisioner.settings import read_api_key

    secret = read_api_key()
    alias = reference.rpartition("/")[2]
    if url is None:
        endpoint = send(visible_calls.get_endpoint(reference))
        url, alias = endpoint.url, chat_alias(endpoint)

    async def talk() -> None:
        async for piece in stream_chat(url, secret, alias=alias, text=text, max_tokens=max_tokens):
            print(piece, end="", flush=True)
        print()

    asyncio.run(talk())


@app.command("exec", hidden=True)
@app.command("shell", hidden=True)
def open_shell(
    reference: ReferenceArgument, _command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...")] = None
) -> None:
    """Say that an endpoint has no shell, and what has.

    Example: tenantry endpoint shell acme/chat
    """
    from provisioner.client import visible_calls

    send(visible_calls.open_shell(reference))


def chat_alias(endpoint: VisibleEndpoint) -> str:
    """The name to send in requests. RejectedError for what is known not to chat, for example a speech model."""
    if isinstance(endpoint.model, str):  # a customer's view, which does not say of which kind it is
        return endpoint.model
    if endpoint.model.kind != "chat":
        raise RejectedError(
            f"chatting with `{endpoint.name}`: it serves {endpoint.model.kind}, not chat",
            reason="UnsupportedModelKind",
            hint="use the path of its kind, for example /v1/audio/transcriptions for speech",
        )
    return endpoint.model.alias
