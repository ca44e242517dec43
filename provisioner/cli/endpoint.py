"""`tenantry endpoint`: what a customer owns and calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.operation import (
    IdempotencyOption,
    TimeoutOption,
    WaitOption,
    finish,
    new_idempotency_key,
)
from provisioner.cli.output import Format, OutputOption, print_error, print_json, print_table, print_view, say
from provisioner.cli.session import collect, send
from provisioner.domain.errors import RejectedError

if TYPE_CHECKING:
    from provisioner.wire.endpoint import EndpointView

app = typer.Typer(name="endpoint", help="Endpoints: what customers own and call.", no_args_is_help=True)

ReferenceArgument = Annotated[str, typer.Argument(help="ep-… or tenant/name.")]


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
    from provisioner.cli.requestfile import read_request
    from provisioner.client import endpoint_calls

    request = read_request(file)
    key = idempotency_key or new_idempotency_key()
    try:
        accepted = send(endpoint_calls.create_endpoint(request.body, idempotency_key=key))
    except RejectedError as error:
        print_error(error, file=request.name, lines=request.lines)
        raise typer.Exit(1) from error
    finish(accepted.operation, wait=wait, timeout=timeout, output=output)
    if wait and accepted.endpoint:
        say(f"hint: it answers at {accepted.endpoint.url} as model `{accepted.endpoint.model.alias}`")


@app.command("list")
def list_endpoints(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, output: OutputOption = Format.TABLE
) -> None:
    """List endpoints.

    Example: tenantry endpoint list --tenant acme
    """
    from provisioner.client import endpoint_calls

    endpoints = collect(endpoint_calls.list_endpoints(tenant))
    if output is Format.JSON:
        print_json([endpoint.model_dump(mode="json", by_alias=True) for endpoint in endpoints])
        return
    print_table(
        ("endpoint", "name", "model", "phase", "stage", "url"),
        [(e.id, f"{e.tenant}/{e.name}", e.model.id, e.phase, e.stage or "-", e.url) for e in endpoints],
    )


@app.command("show")
def show_endpoint(reference: ReferenceArgument, output: OutputOption = Format.TABLE) -> None:
    """Show an endpoint: status with its stages, URL, model, and the ids behind it.

    Example: tenantry endpoint show acme/chat
    """
    from provisioner.client import endpoint_calls

    print_view(send(endpoint_calls.get_endpoint(reference)), output)


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
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete an endpoint and give everything behind it back.

    Example: tenantry endpoint delete acme/chat --wait
    """
    from provisioner.client import endpoint_calls

    key = idempotency_key or new_idempotency_key()
    operation = send(endpoint_calls.delete_endpoint(reference, idempotency_key=key))
    finish(operation, wait=wait, timeout=timeout, output=output)


@app.command("chat")
def chat_endpoint(
    reference: Annotated[str, typer.Argument(help="ep-… or tenant/name; the bare name together with --url.")],
    text: Annotated[str, typer.Argument(help="What to say.")],
    url: Annotated[str | None, typer.Option(help="The endpoint's URL; looked up when left out.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=100_000, help="Longest answer.")] = 256,
) -> None:
    """Say something to a chat endpoint and stream the answer, with the customer's key of TENANTRY_API_KEY.

    Example: TENANTRY_API_KEY=tnt-… tenantry endpoint chat acme/chat "Hello"
    """
    import asyncio

    from provisioner.client import endpoint_calls
    from provisioner.client.inference import stream_chat
    from provisioner.settings import read_api_key

    secret = read_api_key()
    if not secret:
        raise RejectedError(
            "reading TENANTRY_API_KEY: it is not set",
            reason="NoApiKey",
            hint="make a key with `tenantry key create TENANT` and export it as TENANTRY_API_KEY",
        )
    alias = reference.rpartition("/")[2]
    if url is None:
        endpoint = send(endpoint_calls.get_endpoint(reference))
        require_chat(endpoint)
        url, alias = endpoint.url, endpoint.model.alias

    async def talk() -> None:
        async for piece in stream_chat(url, secret, alias=alias, text=text, max_tokens=max_tokens):
            print(piece, end="", flush=True)
        print()

    asyncio.run(talk())


def require_chat(endpoint: EndpointView) -> None:
    """Refuse what cannot chat, for example a speech model."""
    if endpoint.model.kind != "chat":
        raise RejectedError(
            f"chatting with `{endpoint.tenant}/{endpoint.name}`: it serves {endpoint.model.kind}, not chat",
            reason="UnsupportedModelKind",
            hint="use the path of its kind, for example /v1/audio/transcriptions for speech",
        )
