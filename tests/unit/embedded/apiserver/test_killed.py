"""The server is killed while clients write: what it acknowledged is there, and versions go on growing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx2

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from tests.unit.embedded.apiserver.conftest import connect

PATH = "/api/v1/namespaces/default/configmaps"
_PROGRAM = """
import asyncio, pathlib, sys
from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api

async def main():
    server = await serve_api(state=pathlib.Path(sys.argv[1]), host="127.0.0.1", port=0, clock=SystemClock())
    print(server.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
_WRITERS = 4
_ENOUGH = 120


async def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
    acknowledged: dict[str, int] = {}
    enough = asyncio.Event()
    writers = [asyncio.create_task(write(url, number, acknowledged, enough)) for number in range(_WRITERS)]
    await asyncio.wait_for(enough.wait(), 30)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await asyncio.gather(*writers)

    server = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=SystemClock())
    async with connect(server.url) as http:
        listed = (await http.get(PATH)).json()
        found = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listed["items"]}
        assert acknowledged.items() <= found.items()
        assert len(found) <= len(acknowledged) + _WRITERS
        made = (await http.post(PATH, json={"metadata": {"name": "after"}})).json()
        assert int(made["metadata"]["resourceVersion"]) > max(found.values())
    await server.close()


async def write(url: str, writer: int, acknowledged: dict[str, int], enough: asyncio.Event) -> None:
    """Creates objects until the server is gone."""
    async with connect(url) as http:
        number = 0
        while True:
            number += 1
            name = f"w{writer}-{number}"
            try:
                answer = await http.post(PATH, json={"metadata": {"name": name}, "data": {"n": str(number)}})
            except httpx2.TransportError:
                return
            acknowledged[name] = int(answer.json()["metadata"]["resourceVersion"])
            if len(acknowledged) >= _ENOUGH:
                enough.set()
