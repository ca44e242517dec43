"""`tenantry demo`: a live endpoint on this machine, made by the same code that a production installation runs.

Starts the processes, publishes the tiers, creates tenant and endpoint over the REST API, talks to the endpoint with the
official client, and either stays up or, with `--once`, deletes the endpoint and proves that nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
from rich.console import Console

from provisioner.cli.laptop import Laptop, Ports
from provisioner.cli.leftovers import find_leftovers, find_open_files, find_processes, without_those_of
from provisioner.cli.operation import new_idempotency_key, operation_error
from provisioner.cli.progress import show_progress
from provisioner.cli.session import call_api
from provisioner.domain.errors import InvariantError, NotFoundError, RejectedError, RetryableError
from provisioner.settings import Settings
from provisioner.wiring.publishing import publish_tiers

if TYPE_CHECKING:
    from provisioner.client.client import Client
    from provisioner.wire.endpoint import EndpointView
    from provisioner.wire.operation import OperationView

TENANT, NAME, TIER = "acme", "chat", "dedicated"
REQUEST = {
    "name": NAME,
    "tenant": TENANT,
    "model": "gemma-3-270m",
    "region": "local",
    "tier": TIER,
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}
KEY_NAME = "demo"
QUESTION = "What is the capital of France, and what is it famous for?"
MAX_TOKENS = 40
READY_SECONDS = 300.0
_LOOK_SECONDS = 1.0
_LEFT = ("Deleting", "Failed")

console = Console(stderr=True, highlight=False)


@dataclass(slots=True)
class Timing:
    """Where the seconds went, by part."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of a block under `name`."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.parts[name] = self.parts.get(name, 0.0) + time.monotonic() - started


def run_demo(settings: Settings, *, state: Path | None, once: bool) -> int:
    """Run it; the exit code. Ctrl-C and SIGTERM end it in good order."""
    _require_demo_extra()
    signal.signal(signal.SIGTERM, _interrupt)
    laptop = Laptop((state or settings.state).absolute(), os.environ, ports=Ports())
    timing = Timing()
    try:
        asyncio.run(laptop.end_leftovers())
        with (
            _importing("provisioner.rendering.pack", "provisioner.platform.clusters"),
            timing.part("starting processes"),
        ):
            laptop.launch(lambda name: console.print(f"[dim]starting {name} …[/dim]"))
        with timing.part("publishing tiers"):  # in the meantime
            for published in asyncio.run(publish_tiers(laptop.settings)):
                console.print(f"[green]✓[/green] {published}")
        with timing.part("starting processes"):
            laptop.wait_until_ready()
        endpoint, secret = _make_endpoint(laptop, timing)
        with timing.part("generation"):
            _talk(endpoint, secret, state=laptop.state)
        _show_refusal(endpoint)
        if once:
            _delete(laptop, timing)
        else:
            _invite(laptop, endpoint, secret)
            _stay_up(laptop)
    except KeyboardInterrupt:
        console.print("\n[dim]stopping; what was made is still there when you start again[/dim]")
        return 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C would leave processes behind
            signal.signal(number, signal.SIG_IGN)
        with timing.part("stopping processes"):
            asyncio.run(laptop.stop())
    if once:
        _prove_stopped(laptop)
        _tell_timing(timing)
    return 0


@contextmanager
def _importing(*modules: str) -> Iterator[None]:
    """Import what is needed next in a thread, while the block only waits for other processes."""
    importing = threading.Thread(target=lambda: [import_module(name) for name in modules], daemon=True)
    importing.start()
    yield
    importing.join()


def _make_endpoint(laptop: Laptop, timing: Timing) -> tuple[EndpointView, str]:
    from provisioner.client import key_calls

    settings = laptop.settings
    with timing.part("creating the tenant"):
        call_api(settings, _ensure_tenant)
    console.print(f"[green]✓[/green] tenant {TENANT}")
    console.rule(f"endpoint {TENANT}/{NAME} on tier {TIER}", align="left")
    with _importing("openai"), timing.part("creating the endpoint"):
        endpoint, loading = call_api(settings, ensure_endpoint)
    timing.parts["model loading"] = loading
    timing.parts["creating the endpoint"] -= loading
    created = call_api(
        settings,
        lambda client: client.send(
            key_calls.create_key({"tenant": TENANT, "name": KEY_NAME}, idempotency_key=new_idempotency_key())
        ),
    )
    secret = created.secret or ""  # a new request is answered with it
    _wait_for_key(endpoint, secret)
    return endpoint, secret


def _ensure_tenant(client: Client) -> None:
    from provisioner.client import operation_calls, tenant_calls

    if any(tenant.name == TENANT and tenant.ready for tenant in client.collect(tenant_calls.list_tenants())):
        return
    open_ones = [found for found in client.send(operation_calls.list_operations(TENANT)).items if not found.done]
    operation = next(iter(open_ones), None) or client.send(
        tenant_calls.create_tenant(TENANT, display_name="Acme", tiers=[TIER], idempotency_key=new_idempotency_key())
    )
    _require_success(
        show_progress(client.each(operation_calls.watch_operation(operation.id, timeout_seconds=60)), operation)
    )


def ensure_endpoint(client: Client) -> tuple[EndpointView, float]:
    """The demo's endpoint, Ready, and the seconds that its model took to load, 0 for one that was there already.

    Raises what became of the operation.
    """
    from provisioner.client import endpoint_calls, operation_calls

    _finish_deletion(client)
    try:
        endpoint = client.send(endpoint_calls.get_endpoint(f"{TENANT}/{NAME}"))
        if endpoint.phase == "Ready":
            console.print(
                f"[green]✓[/green] it is there from an earlier run, since {endpoint.created_at:%Y-%m-%d %H:%M}Z"
            )
            return endpoint, 0.0
        if endpoint.phase == "Drained":  # somebody tried that, and left it so
            operation = client.send(endpoint_calls.warm_endpoint(endpoint.id, idempotency_key=new_idempotency_key()))
        else:
            operation = client.send(operation_calls.get_operation(endpoint.identifiers.operation))
    except NotFoundError:
        operation = client.send(endpoint_calls.create_endpoint(REQUEST, idempotency_key=new_idempotency_key()))
    operation = show_progress(
        client.each(operation_calls.watch_operation(operation.id, timeout_seconds=READY_SECONDS)), operation
    )
    _require_success(operation)
    return client.send(endpoint_calls.get_endpoint(f"{TENANT}/{NAME}")), loading_seconds(operation)


def _finish_deletion(client: Client) -> None:
    """An endpoint that an earlier run left half deleted, or that it could not make, is in the way of a new one."""
    from provisioner.client import endpoint_calls, operation_calls

    left = [
        found
        for found in client.collect(endpoint_calls.list_endpoints(TENANT))
        if found.name == NAME and found.phase in _LEFT
    ]
    for endpoint in left:
        operation = client.send(endpoint_calls.delete_endpoint(endpoint.id, idempotency_key=new_idempotency_key()))
        views = client.each(operation_calls.watch_operation(operation.id, timeout_seconds=READY_SECONDS))
        _require_success(show_progress(views, operation))


def loading_seconds(operation: OperationView) -> float:
    """How long the model itself took: from the last condition before `loading` to `loading`."""
    since = {stage.name: stage.since for stage in operation.stages if stage.since}
    loaded = since.get("loading")
    if loaded is None:
        return 0.0
    earlier = [moment for name, moment in since.items() if name not in ("loading", "published")]
    return max(0.0, (loaded - max(earlier, default=loaded)).total_seconds())


def _talk(endpoint: EndpointView, secret: str, *, state: Path) -> None:
    import openai

    console.rule("a completion, through the gateway, with the official openai client", align="left")
    console.print(f"[bold]> {QUESTION}[/bold]")
    # Retried while 503: an endpoint of an earlier run loads its model again.
    client = openai.OpenAI(base_url=endpoint.url, api_key=secret, timeout=120, max_retries=8)
    pieces = 0
    try:
        stream = client.chat.completions.create(
            model=endpoint.model.alias,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=MAX_TOKENS,
            temperature=0,  # the same answer each time: by chance the first token would now and then be the stop
            stop=["\n"],  # base weights, not tuned for chat: after an answer they would go on asking
            stream=True,
        )
        for chunk in stream:
            text = chunk.choices[0].delta.content if chunk.choices else None
            if text:
                pieces += 1
                print(text, end="", flush=True)
    except openai.APIError as error:  # the endpoint is not well, which is no bug of this command
        raise RetryableError(
            f"streaming a completion: {error}",
            reason="EndpointFailed",
            hint=f"start it again; to begin anew, remove {state} first",
        ) from error
    print()
    if not pieces:
        raise InvariantError("streaming a completion: the stream had no text", reason="EmptyCompletion")


def _wait_for_key(endpoint: EndpointView, secret: str) -> None:
    """A new key is live when the gateway has the next snapshot, within about a second."""
    deadline = time.monotonic() + 30
    with httpx2.Client(headers={"Authorization": f"Bearer {secret}"}, trust_env=False) as customer:
        while time.monotonic() < deadline:
            answer = customer.get(f"{endpoint.url}/models")
            if answer.status_code == httpx2.codes.OK:
                return
            time.sleep(0.05)
    raise InvariantError(f"waiting for the new key: the gateway still answers {answer.status_code}")


def _show_refusal(endpoint: EndpointView) -> None:
    if endpoint.traffic.open:
        console.print("the same call needs no key: `traffic.open` of this endpoint is true")
        return
    answer = httpx2.get(f"{endpoint.url}/models", trust_env=False)
    if answer.status_code != httpx2.codes.UNAUTHORIZED:
        raise InvariantError(f"calling without a key: wanted 401, got {answer.status_code}")
    console.print(
        f"[green]✓[/green] the same call without a key: {answer.status_code} {answer.json()['error']['message']}"
    )


def _invite(laptop: Laptop, endpoint: EndpointView, secret: str) -> None:
    settings = laptop.settings
    console.rule("it is up until Ctrl-C", align="left")
    rows = {
        "endpoint URL": endpoint.url,
        "model": endpoint.model.alias,
        "API key": secret,
        "REST API": f"{settings.url}/openapi.json",
        "Kubernetes API": f"http://127.0.0.1:{laptop.ports.control_plane}",
        "gateway itself": f"http://127.0.0.1:{laptop.operator_port}/status, /metrics and /config",
        "state": str(laptop.state),
        "logs": f"{laptop.state}/processes/*/log",
    }
    for name, value in rows.items():
        console.print(f"  {name:<15}{value}", soft_wrap=True)
    console.print("\nTry next, in a second terminal:")
    for command in _commands(laptop, secret):
        console.print(f"  {command}", soft_wrap=True)


def _stay_up(laptop: Laptop) -> None:
    """Until Ctrl-C: a process that ends is started again. Raises what starting it raises, with the log's last lines."""
    while True:
        time.sleep(_LOOK_SECONDS)
        for name in laptop.ended():
            log = laptop.child(name).log
            console.print(f"[yellow]![/yellow] {name} has ended (its log: {log}); starting it again", soft_wrap=True)
            laptop.restart(name)
            console.print(f"[green]✓[/green] {name} answers again")


def _commands(laptop: Laptop, secret: str) -> list[str]:
    exports = [f"export TENANTRY_STATE={laptop.state}", f"export TENANTRY_URL={laptop.settings.url}"]
    kubectl = f"kubectl --kubeconfig {laptop.settings.kubeconfig}"
    project = f"{TENANT}-{TIER}"
    return [
        ". .venv/bin/activate",
        *exports,
        f"tenantry endpoint show {TENANT}/{NAME}",
        f'TENANTRY_API_KEY={secret} tenantry endpoint chat {TENANT}/{NAME} "Tell me a joke"',
        "tenantry endpoint create -f docs/quickstart/request.yaml --wait",
        f"{kubectl} --context control-plane get virtualclusterinstances -A",
        f"{kubectl} config get-contexts   # one per tenant cluster of project {project}",
    ]


def _delete(laptop: Laptop, timing: Timing) -> None:
    from provisioner.client import endpoint_calls, key_calls, operation_calls

    console.rule("deleting it again", align="left")

    def delete(client: Client) -> tuple[OperationView, list[str]]:
        operation = client.send(
            endpoint_calls.delete_endpoint(f"{TENANT}/{NAME}", idempotency_key=new_idempotency_key())
        )
        operation = show_progress(
            client.each(operation_calls.watch_operation(operation.id, timeout_seconds=120)), operation
        )
        for key in client.collect(key_calls.list_keys(TENANT)):
            if key.name == KEY_NAME:
                client.send(key_calls.revoke_key(key.id, idempotency_key=new_idempotency_key()))
        return operation, [endpoint.id for endpoint in client.collect(endpoint_calls.list_endpoints())]

    with timing.part("deleting the endpoint"):
        operation, others = call_api(laptop.settings, delete)
    _require_success(operation)
    found = [
        *asyncio.run(find_leftovers(laptop.settings)),
        *find_processes(laptop.state),
        *find_open_files(laptop.pids(), laptop.state),
    ]
    if left := without_those_of(others, found):
        raise InvariantError("proving that nothing is left: found: " + ", ".join(left), reason="Leftovers")
    console.print(
        "[green]✓[/green] nothing is left of it: no tenant cluster, node claim, application, route, branch, model "
        "process, or file outside the state folder"
    )


def _prove_stopped(laptop: Laptop) -> None:
    if living := laptop.living():
        raise InvariantError(f"proving that nothing is left: still running: {', '.join(living)}", reason="Leftovers")
    console.print("[green]✓[/green] every process has ended")


def _tell_timing(timing: Timing) -> None:
    console.rule("where the time went", align="left")
    for name, seconds in timing.parts.items():
        console.print(f"  {name:<24}{seconds:6.1f} s")
    total = sum(timing.parts.values())
    model = timing.parts["model loading"] + timing.parts["generation"]
    console.print(f"  {'all':<24}{total:6.1f} s, of which {total - model:.1f} s are not model loading or generation")


def _require_success(operation: OperationView) -> None:
    if operation.state != "succeeded":
        raise operation_error(operation)


def _require_demo_extra() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("kubernetes_validate", "openai", "xllamacpp") if find_spec(name) is None]
    if missing:
        raise RejectedError(
            f"starting the demo: not installed: {', '.join(missing)}",
            reason="NoDemoExtra",
            hint="pip install 'tenantry[demo]'",
        )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
