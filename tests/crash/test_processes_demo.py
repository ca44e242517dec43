"""`tenantry demo` under SIGKILL, with the real model: the next run ends what was left and goes on with what was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from provisioner.cli.laptop import PROCESSES
from provisioner.cli.leftovers import find_leftovers
from provisioner.settings import read_settings
from tests.crash.installation import DEADLINE_SECONDS, OUTSIDE, ask, of_installation
from tests.e2e.conftest import require_weights, run_command
from tests.ports import free_ports

pytestmark = pytest.mark.timeout(240)

LAST_WORDS = "get-contexts"


def environ_of(state: Path) -> dict[str, str]:
    """An environment that names the state, by which the test finds its processes."""
    return os.environ | {"TENANTRY_STATE": str(state)}


class Demo:
    """One run of `tenantry demo`."""

    def __init__(self, state: Path, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "provisioner.cli", "demo", "--state", str(state)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, env=environ_of(state), stdout=output, stderr=output)

    def wait_for(self, text: str) -> str:
        """What it said, once `text` is part of it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in (said := self._log.read_text()):
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.02)
        return said


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state with ports of its own; whatever runs on it is killed at the end."""
    state = tmp_path / "state"
    state.mkdir()
    with ExitStack() as claims:
        (state / "ports.json").write_text(json.dumps(asdict(free_ports().claimed(claims))))
    yield state
    kill_all(state)


def kill_all(state: Path) -> None:
    """SIGKILL everything that belongs to the installation, model servers included."""
    while pids := of_installation(state):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def process_of(state: Path, name: str) -> int:
    """The process id of the command of this name."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in of_installation(state)}
    [found] = [pid for pid, command in commands.items() if command[1:4] == [b"-m", b"provisioner.cli", name.encode()]]
    return found


def shown(said: str, name: str) -> str:
    """A value of the table that the demo ends with."""
    return next(line.split()[-1] for line in said.splitlines() if line.strip().startswith(name))


def test_killed_demo_is_followed_by_one_that_goes_on_with_its_endpoint(state: Path, tmp_path: Path) -> None:
    """First its parent alone is killed, amid the creation; then, when it is up, everything.

    Ledger: OPS-07, LIF-12
    """
    require_weights()
    first = Demo(state, tmp_path / "first")
    first.wait_for("placement")
    first.process.kill()
    first.process.wait()
    assert len(of_installation(state)) >= len(PROCESSES), "they outlive their parent"

    second = Demo(state, tmp_path / "second")
    before = second.wait_for(LAST_WORDS)
    twice = run_command("demo", "--state", str(state), environ=os.environ)
    assert twice.returncode == 1
    assert "another process holds it" in twice.stderr and "hint: " in twice.stderr
    url = shown(before, "endpoint URL")
    assert ask(url, "chat", shown(before, "API key")) == 200
    os.kill(process_of(state, "serve"), signal.SIGKILL)
    second.wait_for("serve answers again")
    assert ask(url, "chat", shown(before, "API key")) == 200
    kill_all(state)
    second.process.wait()

    third = Demo(state, tmp_path / "third")
    after = third.wait_for(LAST_WORDS)
    assert shown(after, "endpoint URL") == url
    assert ask(url, "chat", shown(before, "API key")) == 200, "the key of before"
    assert len(of_installation(state)) == 1 + len(PROCESSES) + 1, "one of each, and the model server"
    found = Counter(asyncio.run(find_leftovers(read_settings(environ_of(state)))))
    assert [found[name] for name in found if name.startswith(OUTSIDE)] == [1] * len(OUTSIDE), found
    third.process.send_signal(signal.SIGTERM)
    third.wait_for("stopping;")
    third.process.send_signal(signal.SIGINT)  # from somebody who cannot wait
    assert third.process.wait(60) == 0
    assert not of_installation(state)
