"""The long-running commands: demo, embedded, serve, gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provisioner.domain.role import Role


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("demo")(demo)
    app.command("embedded")(embedded)
    app.command("serve")(serve)
    app.command("gateway")(gateway)


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Delete the endpoint at the end, prove nothing is left.")
    ] = False,
    state: Annotated[Path | None, typer.Option(help="State folder; default: TENANTRY_STATE.")] = None,
) -> int:
    """Show a live endpoint on this machine.

    No cluster, no GPU and no cloud account are needed. Starts an embedded control plane, the provisioner and the
    gateway, creates an endpoint on the tier `dedicated`,
    talks to it and stays up until Ctrl-C.

    Example: tenantry demo --once
    """
    from provisioner.cli.demo import run_demo
    from provisioner.settings import read_settings

    return run_demo(read_settings(), state=state, once=once)


def embedded(
    state: Annotated[Path | None, typer.Option(help="State folder; default: TENANTRY_STATE.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the Kubernetes API; 0 for any.")] = 8401,
    gateway_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the tenants' Gateways.")] = 8403,
    public_port: Annotated[int, typer.Option(min=1, max=65535, help="Port our gateway serves customers on.")] = 8402,
    kubeconfig: Annotated[Path | None, typer.Option(help="Where the kubeconfig goes; default: in the state.")] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Leave out what a platform stack makes.")] = False,
    attach: Annotated[
        Path | None, typer.Option(help="Kubeconfig of a cluster to play in, instead of an API of our own.")
    ] = None,
) -> None:
    """Run the embedded control plane alone.

    A Kubernetes API, with stand-ins for vCluster Platform, Argo CD, nodes and model servers. With --attach they play in
    the cluster of that kubeconfig's current context, as far as it has nobody for their parts, and it stays empty.

    Example: tenantry embedded --state ./laptop --port 8401 --kubeconfig ./laptop/kubeconfig
    """
    from provisioner.settings import read_settings
    from provisioner.wiring import EmbeddedOptions, run_embedded

    options = EmbeddedOptions(
        port=port,
        gateway_port=gateway_port,
        public_port=public_port,
        kubeconfig=kubeconfig,
        empty=empty,
        attach=attach,
    )
    run_embedded(read_settings(), state=state, options=options)


def serve(
    roles: Annotated[
        list[Role] | None, typer.Argument(metavar="[api|worker|tenants|reconciler]...", help="Parts to run; all.")
    ] = None,
) -> None:
    """Run REST API, workers and reconciler, or some of them.

    Configured by TENANTRY_* variables. `worker` works on endpoints, `tenants` on tenants with the bootstrap key. Of
    each part there may be several, on one database.

    \b
    Examples:
      TENANTRY_SERVE_ADDR=127.0.0.1:8400 tenantry serve
      tenantry serve api
      tenantry serve worker reconciler
    """
    from provisioner.settings import read_settings
    from provisioner.wiring import run_serve

    run_serve(read_settings(), roles=roles or ())


def gateway() -> None:
    """Run the OpenAI-compatible gateway.

    Configured by the environment alone. With BACKEND_GENERAL it stands alone, in front of engines that you name; with
    TENANTRY_CONTROL_PLANE it serves the endpoints of an installation.

    \b
    Examples:
      BACKEND_GENERAL=http://127.0.0.1:8000 tenantry gateway
      BACKEND_GENERAL=http://gpu-1:8000,http://gpu-2:8000 CONCURRENCY_GENERAL=8 \\
        TENANTRY_KEYS_FILE=keys.jsonl tenantry gateway
      TENANTRY_CONTROL_PLANE=http://127.0.0.1:8400 tenantry gateway
    """
    from provisioner.wiring import run_gateway

    run_gateway()
