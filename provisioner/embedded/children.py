"""Child processes that outlive a crash of their parent without ever being doubled.

Each child has a folder with its log, its pid and a lock file that it holds (flock) for as long as it lives: it inherits
the locked descriptor, so no moment exists at which it runs and is not known, and a reused pid is never mistaken for it.
A restarted parent finds the living by their locks and keeps or ends them. The parent itself holds `lifeline`, by which
a child can see that nobody looks after it any more. Used for model servers and by the demo; it knows neither.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from provisioner.domain.errors import ConflictError, RetryableError

_LOOK_SECONDS = 0.05
_KILL_SECONDS = 10.0
_LIFELINE_SECONDS = 1.0
# The child writes its own pid, then becomes the command: no crash of the parent can come between the two.
_WRITE_PID = 'echo $$ >"$0" && exec "$@"'


class Child:
    """One process, living or not. `name` may have parts, separated by slashes."""

    def __init__(self, name: str, folder: Path, process: subprocess.Popen[bytes] | None) -> None:
        self.name = name
        self.log = folder / "log"
        self._folder = folder
        self._process = process

    @property
    def pid(self) -> int | None:
        """The process id, which is the id of its group and session too; None until it is written."""
        try:
            return int((self._folder / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def exit_code(self) -> int | None:
        """What the process ended with (negative: by this signal). None while it lives, and for one that another
        parent started, which only its parent could learn."""
        return self._process.poll() if self._process else None

    def is_alive(self) -> bool:
        """Whether the process, or one that it left behind, still runs."""
        if self._process is not None:
            self._process.poll()  # takes the exit status, so that no zombie stays
        return is_held(self._folder / "lock")

    def send(self, number: signal.Signals) -> None:
        """Signal the process and what it started; nothing happens when it is gone."""
        if self.is_alive() and (pid := self.pid) is not None:
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                return


class Children:
    """All children of one folder. One process at a time may hold a folder: ConflictError from the second."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lifeline = folder / ".lifeline"
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._held: int | None = _take(self.lifeline, patience_seconds=_LIFELINE_SECONDS)

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Child:
        """Start a command in a session of its own, its output appended to its log (the last run's is `log.previous`).

        `environment` replaces ours. Raises ConflictError when the child runs already.
        """
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        lock = _take(folder / "lock")
        if (ended := self._processes.pop(name, None)) is not None:
            ended.wait()  # it let go of its lock, so this only takes its exit status
        try:
            (folder / "pid").unlink(missing_ok=True)
            if (folder / "log").exists():
                (folder / "log").replace(folder / "log.previous")
            with (folder / "log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    ["/bin/sh", "-c", _WRITE_PID, str(folder / "pid"), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
        finally:
            os.close(lock)
        return self.child(name)

    def child(self, name: str) -> Child:
        """The child of this name, which may have ended long ago or never have been started."""
        return Child(name, self._folder / name, self._processes.get(name))

    def names(self) -> list[str]:
        """All children with a folder, living or not, also those that an earlier parent started."""
        return sorted(str(lock.parent.relative_to(self._folder)) for lock in self._folder.rglob("lock"))

    async def end(self, name: str, *, grace_seconds: float) -> None:
        """SIGTERM, after `grace_seconds` SIGKILL, and remove the child's folder once it is gone.

        Raises RetryableError when even SIGKILL does not end it.
        """
        child = self.child(name)
        for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_SECONDS)):
            if await _is_gone(child, number, seconds=seconds):
                break
        else:
            raise RetryableError(f"ending child `{name}`: it survives SIGKILL, pid: {child.pid}")
        if (ended := self._processes.pop(name, None)) is not None:
            ended.wait()  # it let go of its lock, so this only takes its exit status
        shutil.rmtree(self._folder / name, ignore_errors=True)

    async def end_all(self, *, grace_seconds: float) -> None:
        """End every child, all at once, and let go of the folder."""
        async with asyncio.TaskGroup() as group:
            for name in self.names():
                group.create_task(self.end(name, grace_seconds=grace_seconds))
        self.close()

    def close(self) -> None:
        """Let go of the folder and leave the children running, to be found by the next parent."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def is_held(lock: Path) -> bool:
    """Whether a living process holds this lock file."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _take(lock: Path, *, patience_seconds: float = 0.0) -> int:
    """Lock the file and return its descriptor. Patience is for those who only look, which takes a shared lock."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise ConflictError(
                    f"taking the state folder: another process holds it: {lock.parent}",
                    reason="StateInUse",
                    hint="stop the other `tenantry demo` or `tenantry embedded`, or name another folder with --state",
                ) from error
            time.sleep(_LOOK_SECONDS)


async def _is_gone(child: Child, number: signal.Signals, *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    sent_to: int | None = None
    while child.is_alive():
        if (pid := child.pid) != sent_to:  # a pid that was not written yet is waited for
            child.send(number)
            sent_to = pid
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True
