"""The delivery repository on the git command line: any remote, a local bare repository included.

A push is made in a throw-away repository, so no state is shared and a killed one leaves nothing that matters. Nothing
of the user's git set-up gets in: no configuration, no hooks, no prompt. The same commit always has the same SHA.
Called by the lifecycle verbs; Argo CD reads what stands there.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from provisioner.delivery.interface import Commit
from provisioner.domain.errors import ConflictError, InvariantError, RejectedError, RetryableError

_DEADLINE_SECONDS = 60.0
_ERROR_LIMIT = 300
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,198}[a-z0-9])?")
_READ_DEPTH = 10
"""How many commits below the newest of a branch can be read: an operation makes three at most."""
_FILES_LIMIT = 10_000
_TREE_LIMIT_BYTES = 64 * 2**20
_PREFIX = "push-"
_LEFT_SECONDS = 3600.0
_AUTHOR = "Tenantry <tenantry@localhost>"
_CONFIG = ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false", "credential.interactive=false")


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a git command ended."""

    code: int
    out: str
    errors: str


class GitDelivery:
    """`Delivery` to the repository at `url`. `workdir` holds throw-away repositories; `environment` is what git needs
    to reach the remote (for example GIT_SSH_COMMAND or GIT_ASKPASS). Credentials in the URL are refused, since
    command lines are seen by everybody on the machine."""

    def __init__(self, url: str, workdir: Path, *, environment: Mapping[str, str] | None = None) -> None:
        place = urlsplit(url)
        shows_secret = bool(place.password or (place.username and place.scheme != "ssh"))
        if url.startswith("-") or "::" in url or shows_secret:
            raise RejectedError(
                "opening the delivery repository: the URL holds an option, a remote helper or credentials",
                reason="BadDeliveryUrl",
                hint="give credentials by GIT_ASKPASS or GIT_SSH_COMMAND",
            )
        self._url = url
        self._workdir = workdir
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(workdir),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            **(environment or {}),
        }

    async def head(self, branch: str) -> str | None:
        """The SHA the branch is at, or None."""
        ended = await self._git("ls-remote", "--quiet", "--", self._url, _ref(branch))
        self._expect(ended, f"reading branch `{branch}`")
        for line in ended.out.splitlines():
            sha, _, name = line.partition("\t")
            if name == _ref(branch):
                return sha
        return None

    async def branches(self) -> list[str]:
        """The names of all branches."""
        ended = await self._git("ls-remote", "--quiet", "--heads", "--", self._url)
        self._expect(ended, "listing branches")
        return [line.partition("\trefs/heads/")[2] for line in ended.out.splitlines()]

    async def files(self, branch: str, commit: str) -> Mapping[str, bytes]:
        """What the branch held at one of its newest commits, by path. ConflictError where it is none of them."""
        with self._throw_away() as folder:
            repository = f"--git-dir={folder}"
            self._expect(await self._git(repository, "init", "--quiet", "--bare", "--template="), "preparing a read")
            await self._fetch(repository, branch, commit, depth=_READ_DEPTH)
            listed = await self._git(repository, "ls-tree", "-r", "-z", "--name-only", commit)
            self._expect(listed, f"listing commit `{commit}` of branch `{branch}`")
            paths = [path for path in listed.out.split("\0") if path]
            asked = "".join(f"{commit}:{path}\n" for path in paths)
            told = await self._git(repository, "cat-file", "--batch", "--buffer", stdin=asked.encode())
            self._expect(told, f"reading commit `{commit}` of branch `{branch}`")
            return dict(zip(paths, _contents(told.out.encode()), strict=True))

    async def push(self, commit: Commit) -> str:
        """Make the branch hold exactly `files` on top of `parent`; returns the SHA. Again: the same SHA."""
        script = _fast_import(commit)
        with self._throw_away() as folder:
            repository = f"--git-dir={folder}"
            self._expect(await self._git(repository, "init", "--quiet", "--bare", "--template="), "preparing a push")
            if commit.parent:
                # The branch is at the parent, or, when this push was made before, one above it.
                await self._fetch(repository, commit.branch, commit.parent, depth=2)
            made = await self._git(repository, "fast-import", "--quiet", "--done", stdin=script)
            self._expect(made, f"building the commit for branch `{commit.branch}`")
            sha = made.out.strip()
            await self._push(repository, f"{sha}:{_ref(commit.branch)}", branch=commit.branch, lease=commit.parent)
            return sha

    async def delete(self, branch: str) -> None:
        """Remove the branch; a branch that is gone is fine."""
        head = await self.head(branch)
        if head is None:
            return
        with self._throw_away() as folder:
            repository = f"--git-dir={folder}"
            self._expect(await self._git(repository, "init", "--quiet", "--bare", "--template="), "preparing a push")
            await self._push(repository, f":{_ref(branch)}", branch=branch, lease=head)

    @contextmanager
    def _throw_away(self) -> Iterator[str]:
        """A folder for one push. Those that killed workers left behind, an hour ago or earlier, are removed."""
        self._workdir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._workdir, prefix=_PREFIX) as folder:
            now = Path(folder).stat().st_mtime
            for other in self._workdir.glob(f"{_PREFIX}*"):
                with suppress(FileNotFoundError):  # another worker was quicker
                    if now - other.stat().st_mtime > _LEFT_SECONDS:
                        shutil.rmtree(other, ignore_errors=True)
            yield folder

    async def _fetch(self, repository: str, branch: str, commit: str, *, depth: int) -> None:
        how = ("--quiet", "--no-tags", f"--depth={depth}")
        await self._git(repository, "fetch", *how, "--", self._url, _ref(branch))
        found = await self._git(repository, "cat-file", "-e", f"{commit}^{{commit}}")
        if found.code != 0 and (await self.head(branch)) is not None:
            raise _moved(branch)
        self._expect(found, f"fetching commit `{commit}` of branch `{branch}`")

    async def _push(self, repository: str, refspec: str, *, branch: str, lease: str | None) -> None:
        held = f"--force-with-lease={_ref(branch)}:{lease or ''}"
        ended = await self._git(repository, "push", "--quiet", "--porcelain", held, "--", self._url, refspec)
        if ended.code != 0 and "[rejected]" in ended.out:
            raise _moved(branch)
        self._expect(ended, f"pushing branch `{branch}`")

    def _expect(self, ended: _Ended, doing: str) -> None:
        if ended.code == 0:
            return
        told = " ".join(ended.errors.split())[-_ERROR_LIMIT:]
        raise RetryableError(f"{doing} to {self._url}: git ended with {ended.code}: {told}", reason="GitFailed")

    async def _git(self, *arguments: str, stdin: bytes = b"") -> _Ended:
        program = shutil.which("git")
        if program is None:
            raise RetryableError("starting git: not found on PATH", reason="GitMissing", hint="install git")
        options = [word for setting in _CONFIG for word in ("-c", setting)]
        process = await asyncio.create_subprocess_exec(
            program,
            *options,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                out, errors = await process.communicate(stdin)
        except TimeoutError as error:
            raise RetryableError(
                f"calling git for {self._url}: not done in seconds: {_DEADLINE_SECONDS:.0f}", reason="GitTimeout"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return _Ended(process.returncode or 0, out.decode(errors="replace"), errors.decode(errors="replace"))


def _fast_import(commit: Commit) -> bytes:
    """The stream that makes the commit in one go and prints its SHA."""
    _check_files(commit)
    stamp = f"{_AUTHOR} {int(commit.at.timestamp())} +0000"
    message = commit.message.encode()
    head = f"commit refs/heads/made\nmark :1\nauthor {stamp}\ncommitter {stamp}\ndata {len(message)}\n"
    parts = [head.encode(), message, b"\n"]
    if commit.parent:
        parts.append(f"from {commit.parent}\n".encode())
    parts.append(b"deleteall\n")
    for path, content in sorted(commit.files.items()):
        parts += [f"M 100644 inline {path}\ndata {len(content)}\n".encode(), content, b"\n"]
    return b"".join([*parts, b"get-mark :1\ndone\n"])


def _contents(batch: bytes) -> Iterator[bytes]:
    """The contents in what `git cat-file --batch` tells: a line that ends with an object's size, then the object."""
    position = 0
    while position < len(batch):
        line_end = batch.index(b"\n", position)
        size = int(batch[position:line_end].rpartition(b" ")[2])
        yield batch[line_end + 1 : line_end + 1 + size]
        position = line_end + 2 + size


def _check_files(commit: Commit) -> None:
    _ref(commit.branch)
    for path in commit.files:
        if not all(_is_name(part) for part in path.split("/")):
            raise InvariantError(f"committing to branch `{commit.branch}`: bad file name: {path!r}")
    if commit.parent and not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit.parent):
        raise InvariantError(f"committing to branch `{commit.branch}`: bad parent: {commit.parent!r}")
    size = sum(len(content) for content in commit.files.values())
    if len(commit.files) > _FILES_LIMIT or size > _TREE_LIMIT_BYTES:
        raise RejectedError(
            f"committing to branch `{commit.branch}`: too big a tree: {len(commit.files)} files, {size} bytes",
            reason="TreeTooBig",
        )


def _ref(branch: str) -> str:
    if not _is_name(branch):
        raise InvariantError(f"naming a delivery branch: bad name: {branch!r}")
    return f"refs/heads/{branch}"


def _is_name(name: str) -> bool:
    """Whether git and every file system take the name as it is; excludes dot files, `..` and `.lock`."""
    return _NAME.fullmatch(name) is not None and ".." not in name and not name.endswith(".lock")


def _moved(branch: str) -> ConflictError:
    return ConflictError(
        f"pushing branch `{branch}`: somebody else moved it, it is not at the parent any more",
        reason="BranchMoved",
        hint="another worker has taken this operation over, or somebody pushed by hand",
    )
