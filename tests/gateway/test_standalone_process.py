"""`tenantry gateway` as a person starts it: what the how-to says, what is refused, and the end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import IO

import httpx2
import pytest

from tests.processes import places

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-gateway-alone.md"
COMMAND = (sys.executable, "-m", "provisioner.cli", "gateway")
DEADLINE_SECONDS = 60.0


def environment(**settings: str) -> dict[str, str]:
    """What a process gets: nothing of whoever runs the tests, but where its programs and modules are."""
    return {**places(), "HOME": "/nowhere", **settings}


def _put_lines(stream: IO[str], lines: Queue[str]) -> None:
    for line in stream:
        lines.put(line)


@contextmanager
def gateway(**settings: str) -> Iterator[str]:
    """The address of a gateway that serves, which ends well when it is told to."""
    process = subprocess.Popen(COMMAND, env=environment(**settings), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: Queue[str] = Queue()
    reading = Thread(target=_put_lines, args=(process.stderr, lines), daemon=True)
    reading.start()
    told: list[str] = []
    try:
        while not (found := re.search(r"serving on (\S+)", told[-1] if told else "")):
            told.append(lines.get(timeout=DEADLINE_SECONDS))
        yield found[1]
    except Empty:
        pytest.fail("".join(told))
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(DEADLINE_SECONDS)
        reading.join(DEADLINE_SECONDS)
        process.stderr.close()
    assert status == 0


def test_gateway_serves_from_its_environment_and_ends_when_it_is_told_to() -> None:
    """Ledger: GW-15."""
    with gateway(BACKEND_GENERAL="http://127.0.0.1:9/v1", LISTEN_ADDR="127.0.0.1:0") as address:
        models = httpx2.get(f"http://{address}/v1/models", trust_env=False).json()["data"]
        assert [model["id"] for model in models] == ["general", "coder", "vision"]
        assert httpx2.get(f"http://{address}/readyz", trust_env=False).text == "ready\n"


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ("BACKEND_GENERAL", "TENANTRY_CONTROL_PLANE")),
        ({"BACKEND_VISION": "http://a"}, ("BACKEND_GENERAL", "BACKEND_VISION")),
        ({"BACKEND_GENERAL": "engine:8000"}, ("BACKEND_GENERAL",)),
        ({"BACKEND_GENERAL": "http://a", "LISTEN_ADDR": ":8080"}, ("LISTEN_ADDR", "TENANTRY_ANONYMOUS")),
        ({"BACKEND_GENERAL": "http://a", "TENANTRY_KEYS_FILE": "/nowhere/keys"}, ("TENANTRY_KEYS_FILE",)),
    ],
)
def test_bad_setting_ends_the_start_with_its_name_and_what_to_do(settings: dict[str, str], names: tuple[str]) -> None:
    """Ledger: GW-15."""
    ended = subprocess.run(
        COMMAND, env=environment(**settings), capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert ended.returncode == 1
    error, hint = ended.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert all(name in ended.stderr for name in names)


def test_key_that_is_made_as_the_how_to_says_opens_the_gateway_at_once(tmp_path: Path) -> None:
    """Ledger: GW-10. The file is read while the gateway runs."""
    making = next(
        block for block in re.findall(r"```bash\n(.*?)```", HOW_TO.read_text(), re.DOTALL) if "sha256" in block
    )
    keys = tmp_path / "keys.jsonl"
    keys.touch()
    settings = {"BACKEND_GENERAL": "http://127.0.0.1:9", "LISTEN_ADDR": "127.0.0.1:0", "TENANTRY_KEYS_FILE": str(keys)}
    with gateway(**settings) as address:
        made = subprocess.run(["bash", "-ec", making], cwd=tmp_path, capture_output=True, text=True, check=True)
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        deadline = time.monotonic() + DEADLINE_SECONDS
        while httpx2.get(f"http://{address}/v1/models", headers=headers, trust_env=False).status_code != 200:
            assert time.monotonic() < deadline, "the key is not known"
            Event().wait(0.1)
        assert httpx2.get(f"http://{address}/v1/models", trust_env=False).status_code == 401
    assert made.stdout.strip() not in keys.read_text()
