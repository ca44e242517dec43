"""Commits made where they are read: in a repository on this machine nothing needs to be pushed.

A push to a path starts eight processes, one of which looks at every branch; this starts two, however many branches
there are. Each branch is moved by compare-and-swap as a push does. Called by `git`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from provisioner.delivery.command import Git
from provisioner.delivery.commits import NO_COMMIT, import_stream, moved, ref_of
from provisioner.delivery.interface import Commit
from provisioner.domain.errors import TenantryError


def is_local(url: str) -> bool:
    """Whether it is the path of a bare repository of this machine."""
    return url.startswith("/") and (Path(url) / "objects").is_dir()


async def commit_locally(git: Git, commits: Sequence[Commit]) -> Sequence[str | TenantryError]:
    """Make the commits and move their branches; the SHA of each, or that its branch is not at the parent any more."""
    repository, doing = f"--git-dir={git.url}", f"committing to branches {', '.join(one.branch for one in commits)}"
    made = await git.run(repository, "fast-import", "--quiet", "--done", stdin=import_stream(commits, keep=False))
    if made.code != 0:
        _remove_reports(Path(git.url))
    git.require(made, doing)
    shas = made.text.split()
    wanted: dict[str, tuple[str, str]] = {}
    for commit, sha in zip(commits, shas, strict=True):
        wanted.setdefault(ref_of(commit.branch), (commit.parent or NO_COMMIT, sha))
    heads = await _move(git, repository, wanted, doing=doing)
    return [
        sha if heads[ref_of(commit.branch)] == sha else moved(commit.branch)
        for commit, sha in zip(commits, shas, strict=True)
    ]


def _remove_reports(repository: Path) -> None:
    """Git leaves one where it gives up, as for a parent that is not there."""
    for report in repository.glob("fast_import_crash_*"):
        report.unlink(missing_ok=True)


async def _move(git: Git, repository: str, wanted: Mapping[str, tuple[str, str]], *, doing: str) -> dict[str, str]:
    """Move each ref from one SHA to another if it is there still, and say where each is then. Git moves all of them or
    none: those that are elsewhere are left out and the others moved."""
    heads: dict[str, str] = {}
    while wanted:
        moves = "".join(f"update {ref} {after} {before}\n" for ref, (before, after) in wanted.items())
        ended = await git.run(repository, "update-ref", "--stdin", stdin=moves.encode())
        if ended.code == 0:
            return heads | {ref: after for ref, (_, after) in wanted.items()}
        listed = await git.expect(doing, repository, "for-each-ref", "--format=%(refname) %(objectname)", *wanted)
        found = dict(line.split() for line in listed.text.splitlines())
        elsewhere = {
            ref: found.get(ref, NO_COMMIT) for ref, (before, _) in wanted.items() if found.get(ref, NO_COMMIT) != before
        }
        if not elsewhere:
            git.require(ended, doing)
        heads |= elsewhere
        wanted = {ref: move for ref, move in wanted.items() if ref not in elsewhere}
    return heads
