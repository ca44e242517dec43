"""The delivery repository on the git command line: any remote, a local bare repository included.

A push is made in a throw-away repository, so no state is shared and a killed one leaves nothing that matters; pushes
that come at the same time share one, each with a compare-and-swap of its own. A repository on this machine is committed
to where it lies. The same commit always has the same SHA. Called by the lifecycle verbs; Argo CD reads what stands
there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from provisioner.delivery.command import Git
from provisioner.delivery.commits import check_commit, contents, import_stream, moved, ref_of
from provisioner.delivery.interface import Commit
from provisioner.delivery.local import commit_locally, is_local
from provisioner.delivery.together import Together
from provisioner.domain.errors import RejectedError, RetryableError, TenantryError

_READ_DEPTH = 10
"""How many commits below the newest of a branch can be read: an operation makes three at most."""
_PREFIX = "push-"
_LEFT_SECONDS = 3600.0


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
        self._git = Git(url, home=workdir, environment=environment or {})
        self._pushes: Together[Commit, str] = Together(self._push_all)

    async def head(self, branch: str) -> str | None:
        """The SHA the branch is at, or None."""
        ref = ref_of(branch)
        return (await self._heads(f"reading branch `{branch}`", ref)).get(ref)

    async def branches(self) -> list[str]:
        """The names of all branches."""
        found = await self._heads("listing branches", "refs/heads/*")
        return [ref.removeprefix("refs/heads/") for ref in found]

    async def files(self, branch: str, commit: str) -> Mapping[str, bytes]:
        """What the branch held at one of its newest commits, by path. ConflictError where it is none of them."""
        with self._throw_away() as repository:
            await self._fetch(repository, [(branch, commit)], depth=_READ_DEPTH)
            doing = f"reading commit `{commit}` of branch `{branch}`"
            listed = await self._git.expect(doing, repository, "ls-tree", "-r", "-z", "--name-only", commit)
            paths = [path for path in listed.text.split("\0") if path]
            asked = "".join(f"{commit}:{path}\n" for path in paths).encode()
            told = await self._git.expect(doing, repository, "cat-file", "--batch", "--buffer", stdin=asked)
            return dict(zip(paths, contents(told.out), strict=True))

    async def push(self, commit: Commit) -> str:
        """Make the branch hold exactly `files` on top of `parent`; returns the SHA. Again: the same SHA."""
        check_commit(commit)
        return await self._pushes.ask(commit)

    async def delete(self, branch: str) -> None:
        """Remove the branch; a branch that is gone is fine."""
        head = await self.head(branch)
        if head is None:
            return
        with self._throw_away() as repository:
            rejected = await self._send(repository, {ref_of(branch): (head, "")})
        if rejected:
            raise moved(branch)

    async def _push_all(self, commits: Sequence[Commit]) -> Sequence[str | TenantryError]:
        """Push commits of as many branches; of a branch that is named twice the later one finds it moved."""
        if is_local(self._url):
            return await commit_locally(self._git, commits)
        with self._throw_away() as repository:
            # Each branch is at the parent, or, when this push was made before, one above it.
            parents = [(commit.branch, commit.parent) for commit in commits if commit.parent]
            if parents:
                await self._fetch(repository, parents, depth=2)
            doing = f"building commits for branches {', '.join(commit.branch for commit in commits)}"
            made = await self._git.expect(
                doing, repository, "fast-import", "--quiet", "--done", stdin=import_stream(commits)
            )
            shas = made.text.split()
            wanted: dict[str, tuple[str, str]] = {}
            for commit, sha in zip(commits, shas, strict=True):
                wanted.setdefault(ref_of(commit.branch), (commit.parent or "", sha))
            rejected = await self._send(repository, wanted)
        return [
            moved(commit.branch)
            if ref_of(commit.branch) in rejected or wanted[ref_of(commit.branch)][1] != sha
            else sha
            for commit, sha in zip(commits, shas, strict=True)
        ]

    @contextmanager
    def _throw_away(self) -> Iterator[str]:
        """An empty repository for one push, as git's option. Those that killed workers left behind, an hour ago or
        earlier, are removed."""
        self._workdir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._workdir, prefix=_PREFIX) as folder:
            now = Path(folder).stat().st_mtime
            for other in self._workdir.glob(f"{_PREFIX}*"):
                with suppress(FileNotFoundError):  # another worker was quicker
                    if now - other.stat().st_mtime > _LEFT_SECONDS:
                        shutil.rmtree(other, ignore_errors=True)
            for part in ("objects", "refs"):  # with HEAD, all that git asks of a repository
                (Path(folder) / part).mkdir()
            (Path(folder) / "HEAD").write_text("ref: refs/heads/main\n")
            yield f"--git-dir={folder}"

    async def _heads(self, doing: str, pattern: str) -> dict[str, str]:
        ended = await self._git.expect(doing, "ls-remote", "--quiet", "--", self._url, pattern)
        lines = (line.partition("\t") for line in ended.text.splitlines())
        return {ref: sha for sha, _, ref in lines}

    async def _fetch(self, repository: str, wanted: Sequence[tuple[str, str]], *, depth: int) -> None:
        """Bring commits of branches here. RetryableError where one does not come; ConflictError where it was the only
        one, and its branch is there."""
        refs = dict.fromkeys(ref_of(branch) for branch, _ in wanted)
        how = ("--quiet", "--no-tags", f"--depth={depth}")
        fetched = await self._git.run(repository, "fetch", *how, "--", self._url, *refs)
        asked = "".join(f"{commit}\n" for _, commit in wanted).encode()
        doing = f"fetching branches {', '.join(branch for branch, _ in wanted)}"
        told = await self._git.expect(doing, repository, "cat-file", "--batch-check", stdin=asked)
        missing = [line for line in told.text.splitlines() if line.endswith(" missing")]
        if not missing:
            return
        [(branch, _), *others] = wanted
        if not others and await self.head(branch) is not None:
            raise moved(branch)
        self._git.require(fetched, doing)
        raise RetryableError(f"{doing} from {self._url}: not there: {', '.join(missing)}", reason="GitFailed")

    async def _send(self, repository: str, wanted: Mapping[str, tuple[str, str]]) -> set[str]:
        """Move each ref from one SHA to another, if it is there still; the refs that are not. An empty SHA is none."""
        held = [f"--force-with-lease={ref}:{before}" for ref, (before, _) in wanted.items()]
        refspecs = [f"{after}:{ref}" for ref, (_, after) in wanted.items()]
        ended = await self._git.run(repository, "push", "--quiet", "--porcelain", *held, "--", self._url, *refspecs)
        told = [line.split("\t") for line in ended.text.splitlines() if "[rejected]" in line]
        rejected = {line[1].rpartition(":")[2] for line in told}
        if not rejected:
            self._git.require(ended, f"pushing {', '.join(ref.removeprefix('refs/heads/') for ref in wanted)}")
        return rejected
