"""Runs git for the delivery repository: bounded in time, with nothing of the user's git set-up.

No configuration, no hooks, no prompt gets in. Processes are made by `subprocess` and waited for in a thread: an event
loop's own way copies this process's page tables for each of them. Called by `git` and `pushing`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provisioner.domain.errors import RetryableError

_DEADLINE_SECONDS = 60.0
_ERROR_LIMIT = 300
_CONFIG = ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false", "credential.interactive=false")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a git command ended."""

    code: int
    out: bytes
    errors: bytes

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode(errors="replace")


class Git:
    """The git command line as it is used on the repository at `url`. `environment` is what git needs to reach it."""

    def __init__(self, url: str, *, home: Path, environment: Mapping[str, str]) -> None:
        self.url = url
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            **environment,
        }

    async def run(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run one command to its end. RetryableError (`GitMissing`, `GitTimeout`)."""
        process = self._start(arguments, has_input=bool(stdin))
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                out, errors = await asyncio.to_thread(process.communicate, stdin or None)
        except TimeoutError as error:
            raise RetryableError(
                f"calling git for {self.url}: not done in seconds: {_DEADLINE_SECONDS:.0f}", reason="GitTimeout"
            ) from error
        finally:
            if process.poll() is None:
                process.kill()
                await asyncio.to_thread(process.wait)
        return Ended(process.returncode, out, errors)

    def _start(self, arguments: Sequence[str], *, has_input: bool) -> subprocess.Popen[bytes]:
        program = shutil.which("git")
        if program is None:
            raise RetryableError("starting git: not found on PATH", reason="GitMissing", hint="install git")
        options = [word for setting in _CONFIG for word in ("-c", setting)]
        return subprocess.Popen(
            (program, *options, *arguments),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )

    async def expect(self, doing: str, *arguments: str, stdin: bytes = b"") -> Ended:
        """The same for a command that has to succeed. RetryableError (`GitFailed`) that says what was being done."""
        ended = await self.run(*arguments, stdin=stdin)
        self.require(ended, doing)
        return ended

    def require(self, ended: Ended, doing: str) -> None:
        """Pass when the command succeeded. RetryableError (`GitFailed`)."""
        if ended.code == 0:
            return
        told = " ".join(ended.errors.decode(errors="replace").split())[-_ERROR_LIMIT:]
        raise RetryableError(f"{doing} to {self.url}: git ended with {ended.code}: {told}", reason="GitFailed")
