"""The gateway's process in a benchmark: `python -m benchmarks.gateway.serving PLANE-URL PORT SNAPSHOT-FILE`."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import uvloop

from provisioner.domain.clock import SystemClock
from provisioner.gateway.server import ControlPlane, GatewayConfig, run_gateway


async def serve(plane_url: str, port: int, snapshot_file: Path) -> None:
    """Serves until it is ended."""
    config = GatewayConfig(
        listen_host="127.0.0.1",
        listen_port=port,
        control=ControlPlane(url=plane_url, credential="benchmark", snapshot_file=snapshot_file),
    )
    await run_gateway(config, clock=SystemClock(), stop=asyncio.Event())


if __name__ == "__main__":
    gc.set_threshold(20_000)  # as the command `tenantry` does, before it knows what it is to serve
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
