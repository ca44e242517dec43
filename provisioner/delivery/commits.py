"""Commits as `git fast-import` takes them, and the names that git and every file system take as they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from provisioner.delivery.interface import Commit
from provisioner.domain.errors import ConflictError, InvariantError, RejectedError

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,198}[a-z0-9])?")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FILES_LIMIT = 10_000
_TREE_LIMIT_BYTES = 64 * 2**20
_MADE = "refs/tenantry/made-"
NO_COMMIT = "0" * 40
"""Where git has a ref that is not there."""
_AUTHOR = "Tenantry <tenantry@localhost>"


def import_stream(commits: Iterable[Commit], *, keep: bool = True) -> bytes:
    """The stream that makes the commits in one go and prints the SHA of each, a line each, in order. Without `keep` no
    ref is made for them."""
    parts: list[bytes] = []
    made = 0
    for made, commit in enumerate(commits, 1):
        parts += _commit(commit, made)
    parts += [f"get-mark :{mark}\n".encode() for mark in range(1, made + 1)]
    if not keep:
        parts += [f"reset {_MADE}{mark}\nfrom {NO_COMMIT}\n\n".encode() for mark in range(1, made + 1)]
    return b"".join([*parts, b"done\n"])


def _commit(commit: Commit, mark: int) -> Iterator[bytes]:
    stamp = f"{_AUTHOR} {int(commit.at.timestamp())} +0000"
    message = commit.message.encode()
    yield f"commit {_MADE}{mark}\nmark :{mark}\nauthor {stamp}\ncommitter {stamp}\n".encode()
    yield b"data %d\n%b\n" % (len(message), message)
    if commit.parent:
        yield f"from {commit.parent}\n".encode()
    yield b"deleteall\n"
    for path, content in sorted(commit.files.items()):
        yield f"M 100644 inline {path}\ndata {len(content)}\n".encode()
        yield content
        yield b"\n"


def contents(batch: bytes) -> Iterator[bytes]:
    """The contents in what `git cat-file --batch` tells: a line that ends with an object's size, then the object."""
    position = 0
    while position < len(batch):
        line_end = batch.index(b"\n", position)
        size = int(batch[position:line_end].rpartition(b" ")[2])
        yield batch[line_end + 1 : line_end + 1 + size]
        position = line_end + 2 + size


def check_commit(commit: Commit) -> None:
    """Pass, or raise InvariantError for a name that git could misread, RejectedError (`TreeTooBig`) for too much."""
    ref_of(commit.branch)
    for path in commit.files:
        if not all(_is_name(part) for part in path.split("/")):
            raise InvariantError(f"committing to branch `{commit.branch}`: bad file name: {path!r}")
    if commit.parent and not _SHA.fullmatch(commit.parent):
        raise InvariantError(f"committing to branch `{commit.branch}`: bad parent: {commit.parent!r}")
    size = sum(len(content) for content in commit.files.values())
    if len(commit.files) > _FILES_LIMIT or size > _TREE_LIMIT_BYTES:
        raise RejectedError(
            f"committing to branch `{commit.branch}`: too big a tree: {len(commit.files)} files, {size} bytes",
            reason="TreeTooBig",
        )


def ref_of(branch: str) -> str:
    """The full name of a branch. InvariantError for a name that git could misread."""
    if not _is_name(branch):
        raise InvariantError(f"naming a delivery branch: bad name: {branch!r}")
    return f"refs/heads/{branch}"


def moved(branch: str) -> ConflictError:
    """The error for a branch that is not where the caller saw it."""
    return ConflictError(
        f"pushing branch `{branch}`: somebody else moved it, it is not at the parent any more",
        reason="BranchMoved",
        hint="another worker has taken this operation over, or somebody pushed by hand",
    )


def _is_name(name: str) -> bool:
    """Whether git and every file system take the name as it is; excludes dot files, `..` and `.lock`."""
    return _NAME.fullmatch(name) is not None and ".." not in name and not name.endswith(".lock")
