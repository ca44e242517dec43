"""The official Node client, unchanged but for its base URL and key, which it takes from its own variables."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines import FOLDER
from tests.gateway.alone import Alone, alone, key_line
from tests.gateway.llama import llama_server
from tests.gateway.model_server import USAGE, model_server

SOURCE = Path(__file__).parent / "node"
SECRET = "tnt-secret"


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """Where the client is installed, in the version that the lock file names; skips the tests without Node."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node: install Node.js 20 or newer, with npm")
    folder = FOLDER / "node"
    lock = SOURCE / "package-lock.json"
    installed = folder / "package-lock.json"
    if not (installed.exists() and installed.read_bytes() == lock.read_bytes()):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / "package.json", folder)
        shutil.copy(lock, folder / "package-lock.json.new")
        (folder / "package-lock.json.new").rename(installed)
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        if done.returncode:
            installed.unlink()
            pytest.skip(f"needs node: its client could not be installed: {done.stderr[-300:]}")
    return folder / "node_modules"


async def ask(stage: Alone, modules: Path, *models: str, key: str = SECRET) -> dict[str, Any]:
    """What the client was answered."""
    process = await asyncio.create_subprocess_exec(
        "node",
        str(SOURCE / "client.cjs"),
        *models,
        env={
            "PATH": os.environ["PATH"],
            "NODE_PATH": str(modules),
            "OPENAI_BASE_URL": f"http://127.0.0.1:{stage.gateway.port}/v1",
            "OPENAI_API_KEY": key,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, trouble = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, trouble.decode()
    found: dict[str, Any] = json.loads(told)
    return found


async def test_everything_that_the_client_does_works_unchanged(node_modules: Path, tmp_path: Path) -> None:
    """Ledger: GW-09."""
    (tmp_path / "keys").write_text(key_line(SECRET))
    backends = {"BACKEND_EMBEDDING": "<general>", "BACKEND_VOXTRAL": "<general>", "UPSTREAM_MODEL_GENERAL": "llama-3"}
    async with alone(TENANTRY_KEYS_FILE=str(tmp_path / "keys"), **backends) as stage:
        stage.engines["general"].script = model_server
        found = await ask(stage, node_modules, "general", "embedding", "voxtral")
    unknown, stranger = found.pop("unknown"), found.pop("stranger")
    assert unknown.pop("id").startswith("req_")
    assert unknown == {"kind": "NotFoundError", "status": 404, "code": "model_not_found"}
    assert (stranger["kind"], stranger["status"]) == ("AuthenticationError", 401)
    [called] = found.pop("tools")
    assert (called["function"]["name"], called["function"]["arguments"]) == ("weather", '{"city":"Oslo"}')
    assert found == {
        "chat": "Hello",
        "usage": USAGE,
        "stream": "Hello",
        "models": ["general", "coder", "vision", "embedding", "voxtral"],
        "model": "general",
        "embedding": [0.5, 0.25],
        "transcription": "hello world",
    }


async def test_real_engine_answers_behind_the_gateway(node_modules: Path, tmp_path: Path) -> None:
    """Ledger: GW-09. llama.cpp with a small model."""
    async with llama_server(tmp_path, "tiny") as url, alone(BACKEND_GENERAL=url, MODELS_GENERAL="tiny") as stage:
        found = await ask(stage, node_modules, "tiny", key="any")
    assert found["chat"]
    assert found["stream"]
    assert 1 <= found["usage"]["completion_tokens"] <= 8
    assert found["models"] == ["general", "tiny", "coder", "vision"]
