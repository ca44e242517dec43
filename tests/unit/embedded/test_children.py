"""Child processes: never doubled, found again, ended whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from provisioner.domain.errors import ConflictError
from provisioner.embedded.children import Children, is_held
from tests.processes import is_running

SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
)


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    found = Children(tmp_path / "children")
    yield found
    await found.end_all(grace_seconds=0.1)


def eventually(holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


async def test_child_runs_with_log_and_pid_and_is_gone_with_its_folder_after_end(children: Children) -> None:
    child = children.start("tenant/pod", SLEEPER)
    eventually(lambda: child.log.read_text() == "up\n")
    assert child.is_alive()
    assert child.pid is not None
    pid = child.pid
    assert children.names() == ["tenant/pod"]

    await children.end("tenant/pod", grace_seconds=5.0)

    assert not child.is_alive()
    assert not is_running(pid)
    assert children.names() == []


async def test_second_start_of_a_living_child_is_refused(children: Children) -> None:
    first = children.start("one", SLEEPER)
    with pytest.raises(ConflictError):
        children.start("one", SLEEPER)
    eventually(lambda: first.pid is not None)


async def test_child_that_ignores_the_polite_signal_is_killed_after_the_grace_period(children: Children) -> None:
    child = children.start("stubborn", STUBBORN)
    eventually(lambda: child.log.read_text() == "up\n")
    await children.end("stubborn", grace_seconds=0.2)
    assert not child.is_alive()


async def test_exit_code_and_log_of_the_last_run_are_kept(children: Children) -> None:
    child = children.start("short", ("/bin/sh", "-c", "echo first; exit 7"))
    eventually(lambda: not child.is_alive())
    assert child.exit_code == 7
    again = children.start("short", ("/bin/sh", "-c", "echo second; exit 0"))
    eventually(lambda: not again.is_alive())
    assert again.exit_code == 0
    assert again.log.read_text() == "second\n"
    assert again.log.with_name("log.previous").read_text() == "first\n"


async def test_what_a_child_started_ends_with_it(children: Children) -> None:
    child = children.start("family", ("/bin/sh", "-c", "sleep 600 & echo $!; wait"))
    eventually(lambda: child.log.read_text() != "")
    grandchild = int(child.log.read_text())
    await children.end("family", grace_seconds=5.0)
    eventually(lambda: not is_running(grandchild))


def test_child_of_a_killed_parent_is_found_alive_by_the_next_and_ends_with_it(tmp_path: Path) -> None:
    """The parent is killed in the middle; the child must be neither lost nor started twice."""
    script = (
        "import sys, pathlib, time\n"
        "from provisioner.embedded.children import Children\n"
        "children = Children(pathlib.Path(sys.argv[1]))\n"
        "children.start('engine', (sys.executable, '-c', 'import time; time.sleep(600)'))\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    with pytest.raises(ConflictError, match="another process holds it"):
        Children(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    heir = Children(tmp_path)
    assert heir.names() == ["engine"]
    found = heir.child("engine")
    assert found.is_alive()
    assert found.exit_code is None
    with pytest.raises(ConflictError):
        heir.start("engine", SLEEPER)
    eventually(lambda: found.pid is not None)
    found.send(signal.SIGTERM)
    eventually(lambda: not found.is_alive())
    heir.close()
    assert not is_held(heir.lifeline)


def test_lifeline_is_held_while_the_parent_lives(tmp_path: Path) -> None:
    children = Children(tmp_path)
    assert is_held(children.lifeline)
    children.close()
    assert not is_held(children.lifeline)
    assert not is_held(tmp_path / "never made")
