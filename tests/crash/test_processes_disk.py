"""A full disk and a read-only one under the whole installation: it says so, loses nothing, and goes on afterwards."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import pytest

from provisioner.cli.laptop import PROCESSES
from provisioner.client import key_calls
from provisioner.domain.errors import RetryableError
from tests.crash.installation import running
from tests.crash.quick_tenantry import COMMAND

pytestmark = pytest.mark.timeout(240)

SIZE = "48m"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path_factory.mktemp("disk")
    if not mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)):
        pytest.skip("needs tmpfs: run as root on Linux")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def state(disk: Path) -> Path:
    """What an installation that was stopped left on it."""

    async def install() -> None:
        async with running(disk / "state"):
            pass

    asyncio.run(install())
    return disk / "state"


def mount(*arguments: str) -> bool:
    """Whether we could mount it."""
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def fill(disk: Path) -> Path:
    """Take all the space there is; the file that has it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return ballast


def fill_database(file: Path) -> None:
    """Take what room the database has inside, with idempotency keys that nobody will send."""
    text = "x" * 3000
    with closing(sqlite3.connect(file, timeout=30)) as database, suppress(sqlite3.OperationalError):
        for number in range(100_000):
            database.execute("INSERT INTO mutations VALUES ('', ?, ?, '', '2020-01-01')", (f"room-{number}", text))
            database.commit()


async def test_full_disk_is_told_and_all_goes_on_with_space(disk: Path, state: Path) -> None:
    """Requests go on, writes are refused as something that passes, and what waited is done once there is space.

    Ledger: OPS-07
    """
    async with running(state) as installation:
        secret = await installation.create_key()
        before, _ = await installation.create("before")
        ballast = fill(disk)
        fill_database(state / "tenantry.sqlite")
        async with installation.client() as client:
            with pytest.raises(RetryableError) as refused:
                for number in range(4):  # a last page may be left
                    name = f"key-{number}"
                    await client.send(key_calls.create_key({"tenant": "acme", "name": name}, idempotency_key=name))
        assert (refused.value.reason, "full" in refused.value.message) == ("DatabaseUnavailable", True)
        written = await write_until_refused(installation.laptop.ports.control_plane)
        await installation.require_serving(before, secret)

        deleting = asyncio.create_task(installation.delete(before))
        creating = asyncio.create_task(installation.create("after"))
        for _ in range(4):
            await asyncio.sleep(0.5)
            assert installation.laptop.living() == sorted(PROCESSES)
        ballast.unlink()
        assert (await deleting).state == "succeeded"
        after, operation = await creating
        assert operation.state == "succeeded", operation
        await installation.require_one_of_each([after])
        await installation.require_serving(after, secret)
        assert set(written) == await config_maps(installation.laptop.ports.control_plane)
        assert (await installation.delete(after)).state == "succeeded"
    for file in state.glob("*.sqlite"):
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def write_until_refused(port: int) -> list[str]:
    """Write big objects to the control plane cluster until it refuses; the names of those that it took."""
    taken: list[str] = []
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        while True:
            name = f"big-{len(taken)}"
            body = {"metadata": {"name": name}, "data": {"text": "x" * 500_000}}
            answer = await http.post(CONFIG_MAPS, json=body)
            if answer.status_code != 201:
                assert (answer.status_code, "full" in answer.json()["message"]) == (503, True), answer.text
                return taken
            taken.append(name)


async def config_maps(port: int) -> set[str]:
    """The names of those that are there."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        items = (await http.get(CONFIG_MAPS)).json()["items"]
    return {item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("big-")}


@pytest.mark.parametrize("command", ["demo", "embedded", "serve"])
def test_read_only_state_is_told_without_a_traceback(disk: Path, state: Path, command: str) -> None:
    where = {"TENANTRY_SERVE_ADDR": "127.0.0.1:0", "TENANTRY_URL": "http://127.0.0.1:9"}  # a port of nobody's
    environ = {**os.environ, "TENANTRY_STATE": str(state), **where}
    assert mount("-o", "remount,ro", str(disk))
    try:
        done = subprocess.run([*COMMAND, command], env=environ, capture_output=True, text=True, timeout=60, check=False)
    finally:
        assert mount("-o", "remount,rw", str(disk))
    assert done.returncode in (1, 5), done.stderr
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr
    assert re.search("[Rr]ead-?only", done.stderr), done.stderr
