"""Trees of a git repository as a preview compares them: commits, and the working tree with all that is not committed.

Nothing is checked out, no hook and no prompt runs; only of a partial clone git itself fetches the files that it lacks.
Ignored files are no part of a working tree. Called by wiring for `tenantry preview`; what the
files mean is nothing it knows.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from provisioner.domain.errors import RejectedError, RetryableError

_DEADLINE_SECONDS = 60.0
_ERROR_LIMIT = 300
_FILES_LIMIT = 20_000
_TREE_LIMIT_BYTES = 64 * 2**20
_DEFAULTS = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""What the default branch may be called, best first."""
_LINK, _SUBMODULE = "120000", "160000"
_OPTIONS = ("--literal-pathspecs", "--no-optional-locks", "-c", "core.fsmonitor=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One state of the files: a commit, or the working tree where `commit` is None. `label` is what people call it."""

    label: str
    commit: str | None


WORKING_TREE = Revision(label="working tree", commit=None)


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a tree: mode and object as git names them; of the working tree there is no object."""

    mode: str
    blob: str = ""
    size: int = 0


class Repository:
    """The git repository around a folder. Raises RejectedError (`NoRepository`) where there is none."""

    def __init__(self, folder: Path) -> None:
        self._program = shutil.which("git")
        self.root = folder
        ended = self._git("rev-parse", "--show-toplevel")
        if ended.returncode != 0:
            raise RejectedError(
                f"finding the git repository around `{folder}`: {_told(ended)}",
                reason="NoRepository",
                hint="run this inside a checkout of your templates",
            )
        self.root = Path(ended.stdout.decode(errors="surrogateescape").rstrip("\n"))

    def inside(self, path: Path) -> str | None:
        """The path from the root of the repository, None for one outside of it."""
        real = path.resolve()
        return real.relative_to(self.root.resolve()).as_posix() if real.is_relative_to(self.root.resolve()) else None

    def submodule_of(self, path: Path) -> str | None:
        """The submodule that a path inside of the repository lies below, None for none."""
        within = self.inside(path)
        above = [] if within is None else list(PurePosixPath(within).parents)[:-1]
        return next((str(folder) for folder in above if (self.root / folder / ".git").exists()), None)

    def revision(self, name: str, *, option: str) -> Revision:
        """The commit of a branch, tag or SHA; a branch that only the remote `origin` has counts too. `option` is what
        it was named with.

        Raises RejectedError (`UnknownRevision`) that says what to fetch.
        """
        for known in (name, f"origin/{name}"):
            ended = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{known}^{{commit}}")
            if ended.returncode == 0:
                return Revision(label=name, commit=ended.stdout.decode().strip())
        raise RejectedError(
            f"finding the revision of `{option}`: this clone does not have `{name}`",
            reason="UnknownRevision",
            hint=f"{self._how_to_fetch(name, option)}; in GitHub Actions `fetch-depth: 2` and "
            "`--base HEAD^1 --head HEAD`",
        )

    def _how_to_fetch(self, name: str, option: str) -> str:
        if not name:
            return f"give `{option}` a branch, a tag or a commit, or leave it out"
        depth = " --depth=1" if self._is_shallow() else ""
        if re.search(r"[~^@]", name):  # counted from a commit, which a remote is not asked for
            return "`git fetch --deepen=50`, then the same again" if depth else "`git log --oneline` shows what it has"
        return f"`git fetch{depth} origin {name}`, then `{option} FETCH_HEAD`"

    def fork_point(self, head: Revision) -> Revision:
        """Where `head` left the default branch: that of `origin`, else `main` or `master`.

        Raises RejectedError where this clone has no such branch, or not enough of its history.
        """
        told = self._expect("for-each-ref", "--format=%(refname) %(objectname)", *map(_full, _DEFAULTS))
        known = dict(line.split() for line in told.decode().splitlines())
        name = next((name for name in _DEFAULTS if _full(name) in known), None)
        if name is None:
            raise RejectedError(
                "finding what to compare with: this clone has no default branch: none of "
                + ", ".join(f"`{known}`" for known in _DEFAULTS),
                reason="UnknownRevision",
                hint="name it with `--base`; in GitHub Actions `fetch-depth: 2` and `--base HEAD^1`",
            )
        ended = self._git("merge-base", known[_full(name)], head.commit or "HEAD")
        if ended.returncode != 0:
            branch = name.removeprefix("origin/")
            raise RejectedError(
                f"finding where the change left `{name}`: this clone has no common commit",
                reason="UnknownRevision",
                hint=f"`git fetch --deepen=200 origin {branch}`, or `--base {name}` to compare with its newest commit",
            )
        commit = ended.stdout.decode().strip()
        return Revision(label=f"{name} at {commit[:7]}", commit=commit)

    def files(self, revision: Revision, below: Sequence[str], *, wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """The contents of the files in some folders (or of these files) by path from the root, for which `wanted`.

        A link to another of the files has its content. Raises RejectedError for a submodule, for a link that leads
        elsewhere and for more than can be previewed.
        """
        listed = self._committed(revision.commit, below) if revision.commit else self._present(below)
        found = {path: file for path, file in listed if wanted(path) or file.mode == _SUBMODULE}
        if submodule := next((path for path, file in found.items() if file.mode == _SUBMODULE), None):
            raise RejectedError(
                f"reading `{submodule}` at {revision.label}: it is a submodule, whose files are in another repository",
                reason="Submodule",
                hint="preview inside the submodule, where its own history is",
            )
        size = sum(file.size for file in found.values())
        if len(found) > _FILES_LIMIT or size > _TREE_LIMIT_BYTES:
            raise RejectedError(
                f"reading {revision.label}: too much to preview: {len(found)} files, {size} bytes", reason="TreeTooBig"
            )
        contents = self._blobs(found) if revision.commit else self._contents(found)
        links = {path for path, file in found.items() if file.mode == _LINK}
        return {path: _followed(path, contents, links, revision.label) for path in contents}

    def _committed(self, commit: str, below: Sequence[str]) -> Iterator[tuple[str, _File]]:
        ended = self._expect("ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", *below)
        for entry in filter(None, ended.decode(errors="surrogateescape").split("\0")):
            facts, _, path = entry.partition("\t")
            mode, _, blob, size = facts.split()
            yield path, _File(mode, blob, int(size) if size.isdecimal() else 0)

    def _present(self, below: Sequence[str]) -> Iterator[tuple[str, _File]]:
        """What lies in the working tree, tracked or not, without what is ignored."""
        ended = self._expect("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard", "--", *below)
        for entry in filter(None, ended.decode(errors="surrogateescape").split("\0")):
            tag, path = entry[0], entry[2:]
            try:
                status = (self.root / path).lstat()
            except (FileNotFoundError, NotADirectoryError) as error:
                if tag == "S":
                    raise RejectedError(
                        f"reading `{path}`: a sparse checkout left it out",
                        reason="NotCheckedOut",
                        hint="`git sparse-checkout add` its folder, or name a commit with `--head`",
                    ) from error
                continue  # deleted and not yet committed
            if stat.S_ISDIR(status.st_mode):
                yield path.rstrip("/"), _File(_SUBMODULE)
            elif not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):  # a pipe would be read for ever
                raise RejectedError(
                    f"reading `{path}`: neither a file nor a folder nor a link",
                    reason="Unreadable",
                    hint="put the file back, or name a commit with `--head`",
                )
            else:
                yield path, _File(_LINK if stat.S_ISLNK(status.st_mode) else "100644", size=status.st_size)

    def _contents(self, found: Mapping[str, _File]) -> dict[str, bytes]:
        contents = {}
        for path, file in found.items():
            place = self.root / path
            try:
                contents[path] = bytes(place.readlink()) if file.mode == _LINK else place.read_bytes()
            except OSError as error:
                fact = (error.strerror or "cannot be read").lower()
                raise RejectedError(f"reading `{path}`: {fact}", reason="Unreadable") from error
        return contents

    def _blobs(self, found: Mapping[str, _File]) -> dict[str, bytes]:
        """The contents of committed files, all in one go."""
        asked = "".join(f"{file.blob}\n" for file in found.values())
        told = memoryview(self._expect("cat-file", "--batch", stdin=asked.encode()))
        contents, start = {}, 0
        for path, file in found.items():
            head_end = bytes(told[start : start + 200]).find(b"\n") + start
            head = bytes(told[start:head_end]).decode(errors="replace").split()
            if head[1:2] != ["blob"]:
                raise RejectedError(
                    f"reading `{path}`: this clone does not hold its content: {file.blob}",
                    reason="BlobMissing",
                    hint="fetch it, for example with `git fetch --refetch`",
                )
            start = head_end + 1
            contents[path] = bytes(told[start : start + int(head[2])])
            start += int(head[2]) + 1
        return contents

    def _is_shallow(self) -> bool:
        return self._git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def _expect(self, *arguments: str, stdin: bytes = b"") -> bytes:
        ended = self._git(*arguments, stdin=stdin)
        if ended.returncode != 0:
            raise RejectedError(f"reading the git repository `{self.root}`: {_told(ended)}", reason="GitFailed")
        return ended.stdout

    def _git(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        if self._program is None:
            raise RejectedError("starting git: not found on PATH", reason="GitMissing", hint="install git")
        try:
            return subprocess.run(
                [self._program, *_OPTIONS, *arguments],
                cwd=self.root,
                input=stdin,
                capture_output=True,
                timeout=_DEADLINE_SECONDS,
                start_new_session=True,  # so that it finds no terminal to ask anything on
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RetryableError(
                f"reading the git repository `{self.root}`: not done in seconds: {_DEADLINE_SECONDS:.0f}",
                reason="GitTimeout",
            ) from error
        except OSError as error:
            fact = (error.strerror or str(error)).lower()
            message = f"finding the git repository around `{self.root}`: {fact}"
            raise RejectedError(message, reason="NoRepository") from error


def _full(name: str) -> str:
    return f"refs/remotes/{name}" if "/" in name else f"refs/heads/{name}"


def _followed(path: str, contents: Mapping[str, bytes], links: set[str], label: str) -> bytes:
    """A file's content; that of the file it leads to for a link."""
    place, seen = path, {path}
    while place in links:
        target = contents[place].decode(errors="surrogateescape")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        if place not in contents or place in seen or target.startswith("/"):
            raise RejectedError(
                f"reading `{path}` at {label}: it is a link that leads to no file that is previewed: {target}",
                reason="LinkLeadsOut",
                hint="put a copy in its place",
            )
        seen.add(place)
    return contents[place]


def _told(ended: subprocess.CompletedProcess[bytes]) -> str:
    text = " ".join(ended.stderr.decode(errors="replace").split())
    return text.removeprefix("fatal: ")[-_ERROR_LIMIT:] or f"git ended with {ended.returncode}"
