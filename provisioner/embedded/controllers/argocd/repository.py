"""Reads the delivery repository as Argo CD's repo server does: a revision's commit, and the manifests under a path.

Only the one bare repository of this installation, through the `git` command; nothing is ever written. Called by the
application controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.manifests import parse_manifests

_LARGEST_TREE_BYTES = 32 * 2**20
_TIMEOUT_SECONDS = 30
_SUFFIXES = (".yaml", ".yml", ".json")


class Repository:
    """A bare repository on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def is_source(self, url: str) -> bool:
        """Whether a source's repoURL means this repository (a path or a `file://` URL)."""
        return "://" not in url.removeprefix("file://") and Path(url.removeprefix("file://")).resolve() == self._path

    async def commit(self, revision: str) -> str:
        """The SHA of a branch, tag or commit. NotFoundError when there is none of this name."""
        name = "HEAD" if revision in ("", "HEAD") else revision
        try:
            out = await self._git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        except RejectedError as error:
            raise NotFoundError(f"resolving revision in the delivery repository: {revision}") from error
        return out.decode().strip()

    async def read(self, commit: str, path: str) -> list[Json]:
        """The manifests directly under `path` at a commit. NotFoundError when the path is not there, RejectedError when
        a file is no manifest."""
        folder = PurePosixPath(path or ".")
        if folder.is_absolute() or ".." in folder.parts:
            raise RejectedError(f"reading the delivery repository: path leaves it: {path}")
        try:
            archive = await self._git("archive", "--format=tar", commit, "--", str(folder))
        except RejectedError as error:
            raise NotFoundError(f"{path}: app path does not exist") from error
        manifests: list[Json] = []
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            for member in sorted(files.getmembers(), key=lambda member: member.name):
                name = PurePosixPath(member.name)
                if not member.isfile() or name.parent != folder or name.suffix not in _SUFFIXES:
                    continue
                content = files.extractfile(member)
                text = content.read().decode(errors="replace") if content else ""
                manifests += parse_manifests(text, what=member.name)
        return manifests

    async def _git(self, *arguments: str) -> bytes:
        # The user's own git configuration (hooks, aliases, safe.directory) must not matter.
        environment = {"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
        try:
            process = await asyncio.create_subprocess_exec(
                shutil.which("git") or "git", f"--git-dir={self._path}", *arguments,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=environment,
            )  # fmt: skip
        except OSError as error:
            raise RetryableError(f"starting git: {error}") from error
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):  # wait_for of Python 3.11 may swallow a cancellation
                out, err = await process.communicate()
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):  # it may have ended in the meantime
                process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise RetryableError(f"running git {arguments[0]}: not done in {_TIMEOUT_SECONDS} s") from error
            raise
        if process.returncode != 0:
            raise RejectedError(f"running git {arguments[0]}: {err.decode(errors='replace').strip()[:256]}")
        if len(out) > _LARGEST_TREE_BYTES:
            raise RejectedError(f"reading the delivery repository: larger than {_LARGEST_TREE_BYTES} bytes")
        return out
