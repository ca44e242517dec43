"""The delivery repository against a real bare repository."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provisioner.delivery.command import Ended
from provisioner.delivery.git import GitDelivery
from provisioner.delivery.interface import Commit
from provisioner.domain.errors import ConflictError, InvariantError, RejectedError, RetryableError

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    path = tmp_path / "delivery.git"
    git("init", "--quiet", "--bare", str(path))
    return path


@pytest.fixture(params=["{}", "file://{}"], ids=["local", "remote"])
def delivery(request: pytest.FixtureRequest, remote: Path, tmp_path: Path) -> GitDelivery:
    return GitDelivery(request.param.format(remote), tmp_path / "work")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def commit(files: Mapping[str, bytes], *, parent: str | None = None) -> Commit:
    return Commit(branch="ep-a", files=files, parent=parent, message="Create endpoint chat\n", at=AT)


async def test_pushed_branch_holds_exactly_the_files(delivery: GitDelivery, remote: Path) -> None:
    first = await delivery.push(commit({"endpoints/ep-a/a.yaml": b"a: 1\n", "endpoints/ep-a/b.yaml": b"b: 1\n"}))
    await delivery.push(commit({"endpoints/ep-a/b.yaml": b"b: 2\n"}, parent=first))
    assert git("-C", str(remote), "ls-tree", "-r", "--name-only", "ep-a") == "endpoints/ep-a/b.yaml"
    assert git("-C", str(remote), "show", "ep-a:endpoints/ep-a/b.yaml") == "b: 2"
    assert git("-C", str(remote), "rev-parse", "ep-a^") == first


async def test_same_commit_has_the_same_sha_in_another_repository(delivery: GitDelivery, tmp_path: Path) -> None:
    other = tmp_path / "other.git"
    git("init", "--quiet", "--bare", str(other))
    wanted = commit({"endpoints/ep-a/a.yaml": b"a: 1\n"})
    assert await delivery.push(wanted) == await GitDelivery(str(other), tmp_path / "elsewhere").push(wanted)


async def test_repeated_push_is_the_same_sha_and_moves_nothing(delivery: GitDelivery) -> None:
    first = await delivery.push(commit({"a.yaml": b"1"}))
    assert await delivery.push(commit({"a.yaml": b"1"})) == first
    second = await delivery.push(commit({"a.yaml": b"2"}, parent=first))
    assert await delivery.push(commit({"a.yaml": b"2"}, parent=first)) == second
    assert await delivery.head("ep-a") == second


async def test_push_over_somebody_elses_commit_is_a_conflict(delivery: GitDelivery) -> None:
    first = await delivery.push(commit({"a.yaml": b"1"}))
    with pytest.raises(ConflictError) as refused:
        await delivery.push(commit({"a.yaml": b"other"}))
    assert refused.value.reason == "BranchMoved"
    second = await delivery.push(commit({"a.yaml": b"2"}, parent=first))
    third = await delivery.push(commit({"a.yaml": b"3"}, parent=second))
    with pytest.raises(ConflictError):
        await delivery.push(commit({"a.yaml": b"late"}, parent=first))
    assert await delivery.head("ep-a") == third


def other_branch(name: str, files: Mapping[str, bytes], *, parent: str | None = None) -> Commit:
    return replace(commit(files, parent=parent), branch=name)


async def test_pushes_that_come_together_share_processes(delivery: GitDelivery, remote: Path) -> None:
    ran = count_commands(delivery)
    wanted = [other_branch(f"ep-{number}", {"a.yaml": str(number).encode()}) for number in range(20)]
    shas = await asyncio.gather(*map(delivery.push, wanted))
    assert len(ran) <= 4, "two turns of two commands: the first push began alone"
    assert [git("-C", str(remote), "rev-parse", one.branch) for one in wanted] == shas
    assert git("-C", str(remote), "show", "ep-7:a.yaml") == "7"
    again = [other_branch(f"ep-{number}", {"a.yaml": b"new"}, parent=shas[number]) for number in range(20)]
    newer = await asyncio.gather(*map(delivery.push, again))
    assert [git("-C", str(remote), "rev-parse", f"{one.branch}^") for one in again] == shas != newer


async def test_push_that_is_refused_keeps_no_other_from_its_branch(delivery: GitDelivery, remote: Path) -> None:
    taken = await delivery.push(other_branch("taken", {"a.yaml": b"1"}))
    gone = other_branch("gone", {"a.yaml": b"1"}, parent="1" * 40)
    wanted = [
        other_branch("first", {"a.yaml": b"1"}),
        other_branch("taken", {"a.yaml": b"late"}),
        other_branch("taken", {"a.yaml": b"1"}),
        gone,
        other_branch("last", {"a.yaml": b"1"}),
    ]
    first, late, repeated, lost, last = await asyncio.gather(*map(delivery.push, wanted), return_exceptions=True)
    assert isinstance(late, ConflictError) and late.reason == "BranchMoved"
    assert isinstance(lost, RetryableError), "the branch is not there: it may be on its way"
    assert repeated == taken == await delivery.head("taken")
    assert [first, last] == [await delivery.head("first"), await delivery.head("last")]
    assert not list(remote.glob("fast_import_crash_*"))


async def test_two_that_push_different_things_to_one_branch_together_do_not_both_succeed(delivery: GitDelivery) -> None:
    await asyncio.gather(delivery.push(other_branch("busy", {"a.yaml": b"1"})), asyncio.sleep(0))
    both = [commit({"a.yaml": b"1"}), commit({"a.yaml": b"2"})]
    ended = await asyncio.gather(*map(delivery.push, both), return_exceptions=True)
    [sha] = [one for one in ended if isinstance(one, str)]
    assert sha == await delivery.head("ep-a")


async def test_caller_that_goes_keeps_no_other_from_its_branch(delivery: GitDelivery) -> None:
    pushes = [asyncio.create_task(delivery.push(other_branch(name, {"a.yaml": b"1"}))) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    pushes[0].cancel()
    ended = await asyncio.gather(*pushes, return_exceptions=True)
    assert ended[1:] == [await delivery.head("b"), await delivery.head("c")]


def count_commands(delivery: GitDelivery) -> list[str]:
    """The git commands that are run from now on."""
    ran: list[str] = []
    run = delivery._git.run

    async def counted(*arguments: str, stdin: bytes = b"") -> Ended:
        ran.append(" ".join(arguments))
        return await run(*arguments, stdin=stdin)

    delivery._git.run = counted  # type: ignore[method-assign]
    return ran


async def test_deleted_branch_is_gone_and_deleting_again_is_fine(delivery: GitDelivery) -> None:
    await delivery.push(commit({"a.yaml": b"1"}))
    assert await delivery.branches() == ["ep-a"]
    await delivery.delete("ep-a")
    assert await delivery.head("ep-a") is None
    assert await delivery.branches() == []
    await delivery.delete("ep-a")


async def test_commits_leave_no_ref_but_their_branch(delivery: GitDelivery, remote: Path) -> None:
    await delivery.push(commit({"a.yaml": b"1"}))
    assert git("-C", str(remote), "for-each-ref", "--format=%(refname)") == "refs/heads/ep-a"


async def test_push_after_the_branch_was_deleted_does_not_bring_it_back(delivery: GitDelivery) -> None:
    first = await delivery.push(commit({"a.yaml": b"1"}))
    await delivery.delete("ep-a")
    with pytest.raises((ConflictError, RetryableError)):
        await delivery.push(commit({"a.yaml": b"2"}, parent=first))
    assert await delivery.head("ep-a") is None


async def test_configuration_and_hooks_of_the_user_do_not_get_in(
    delivery: GitDelivery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n\thooksPath = {home}/hooks\n[user]\n\tname = Somebody\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("GIT_DIR", str(home))
    sha = await delivery.push(commit({"a.yaml": b"1"}))
    assert await delivery.head("ep-a") == sha


async def test_leftovers_of_a_push_are_removed(delivery: GitDelivery, tmp_path: Path) -> None:
    await delivery.push(commit({"a.yaml": b"1"}))
    work = tmp_path / "work"
    assert not work.exists() or list(work.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["../a", "a/../b", ".git/config", "a//b", "/a", "a b", 'a"b', "a\nM 100644 x", "", "a/"]
)
async def test_file_name_that_could_leave_the_tree_is_refused(delivery: GitDelivery, path: str) -> None:
    with pytest.raises(InvariantError):
        await delivery.push(commit({path: b"1"}))


@pytest.mark.parametrize("branch", ["-f", "a..b", "a.lock", "refs heads", "x:y", ""])
async def test_branch_name_that_git_could_misread_is_refused(delivery: GitDelivery, branch: str) -> None:
    with pytest.raises(InvariantError):
        await delivery.head(branch)


@pytest.mark.parametrize(
    "url",
    ["--upload-pack=x", "ext::sh -c x", "https://me:secret@git.example.com/a", "https://secret@git.example.com/a"],
)
def test_url_that_runs_something_or_shows_a_password_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(RejectedError) as refused:
        GitDelivery(url, tmp_path)
    assert "secret" not in str(refused.value)


async def test_missing_remote_is_worth_a_retry(tmp_path: Path) -> None:
    delivery = GitDelivery(str(tmp_path / "nowhere.git"), tmp_path / "work")
    with pytest.raises(RetryableError):
        await delivery.head("ep-a")
    with pytest.raises(RetryableError):
        await delivery.push(commit({"a.yaml": b"1"}))


async def test_what_killed_pushes_left_behind_is_removed_after_an_hour(remote: Path, tmp_path: Path) -> None:
    delivery = GitDelivery(f"file://{remote}", tmp_path / "work")
    left, running = (tmp_path / "work" / name for name in ("push-left", "push-running"))
    for folder in (left, running):
        folder.mkdir(parents=True)
    an_hour_ago = running.stat().st_mtime - 3700
    os.utime(left, (an_hour_ago, an_hour_ago))
    await delivery.push(commit({"a.yaml": b"1"}))
    assert list((tmp_path / "work").iterdir()) == [running]


async def test_files_of_an_earlier_commit_are_read_as_they_were(delivery: GitDelivery) -> None:
    files = {"endpoints/ep-a/a.yaml": "a: é\n".encode(), "endpoints/ep-a/b.yaml": b"", "c.yaml": b"c\n\n"}
    first = await delivery.push(commit(files))
    second = await delivery.push(commit({"c.yaml": b"2"}, parent=first))
    assert await delivery.files("ep-a", first) == files
    assert await delivery.files("ep-a", second) == {"c.yaml": b"2"}


async def test_commit_that_the_branch_never_had_is_a_conflict(delivery: GitDelivery) -> None:
    await delivery.push(commit({"a.yaml": b"1"}))
    with pytest.raises(ConflictError) as refused:
        await delivery.files("ep-a", "0" * 40)
    assert refused.value.reason == "BranchMoved"
