"""Trees of a repository: commits and the working tree as they are, and what is said of those that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provisioner.delivery.trees import WORKING_TREE, Repository
from provisioner.domain.errors import RejectedError
from tests.unit.preview_units.repository import git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with two files below `data`."""
    place = tmp_path / "repository"
    (place / "data").mkdir(parents=True)
    (place / "data" / "one.txt").write_bytes(b"one\r\n\x00")
    (place / "data" / "zwei ü.txt").write_text("two")
    (place / "beside.txt").write_text("beside")
    (place / ".gitignore").write_text("*.tmp\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    return place


def files(folder: Path, revision: str | None = None, below: tuple[str, ...] = ("data",)) -> dict[str, bytes]:
    """What a revision, or the working tree, holds."""
    repository = Repository(folder)
    side = repository.revision(revision, option="--head") if revision else WORKING_TREE
    return repository.files(side, below, wanted=lambda _: True)


def test_both_kinds_of_tree_hold_the_same_bytes(folder: Path) -> None:
    expected = {"data/one.txt": b"one\r\n\x00", "data/zwei ü.txt": b"two"}
    assert files(folder, "main") == files(folder) == expected


def test_working_tree_is_what_is_not_committed_too(folder: Path) -> None:
    (folder / "data" / "one.txt").write_text("changed")
    (folder / "data" / "zwei ü.txt").unlink()
    (folder / "data" / "new.txt").write_text("new")
    (folder / "data" / "new.tmp").write_text("ignored")
    git(folder, "add", "data/one.txt")
    (folder / "data" / "one.txt").write_text("changed again")
    assert files(folder) == {"data/new.txt": b"new", "data/one.txt": b"changed again"}
    assert files(folder, "HEAD")["data/one.txt"] == b"one\r\n\x00"


def test_only_what_is_wanted_is_read(folder: Path) -> None:
    found = Repository(folder).files(WORKING_TREE, ["data"], wanted=lambda path: path.endswith("one.txt"))
    assert list(found) == ["data/one.txt"]


def test_repository_is_found_from_a_folder_inside_of_it(folder: Path) -> None:
    repository = Repository(folder / "data")
    assert repository.root == folder
    assert repository.inside(folder / "data" / "one.txt") == "data/one.txt"
    assert repository.inside(folder.parent) is None


def test_many_files_are_read_at_once(folder: Path) -> None:
    for number in range(2000):
        (folder / "data" / f"{number}.txt").write_text(str(number) * number)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "many")
    assert files(folder, "HEAD") == files(folder)


@pytest.mark.parametrize("revision", [None, "HEAD"])
def test_link_to_another_file_has_its_content(folder: Path, revision: str | None) -> None:
    (folder / "data" / "link.txt").symlink_to("one.txt")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "link")
    assert files(folder, revision)["data/link.txt"] == b"one\r\n\x00"


@pytest.mark.parametrize("target", ["/etc/hostname", "../beside.txt", "link.txt"])
@pytest.mark.parametrize("revision", [None, "HEAD"])
def test_link_that_leads_elsewhere_is_refused(folder: Path, revision: str | None, target: str) -> None:
    (folder / "data" / "link.txt").symlink_to(target)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "link")
    with pytest.raises(RejectedError) as refused:
        files(folder, revision)
    assert refused.value.reason == "LinkLeadsOut"


def test_file_that_a_sparse_checkout_left_out_is_no_deleted_file(folder: Path) -> None:
    git(folder, "sparse-checkout", "set", "--no-cone", "/*", "!data/one.txt")
    with pytest.raises(RejectedError) as refused:
        files(folder)
    assert refused.value.reason == "NotCheckedOut"


@pytest.mark.parametrize("name", ["nothing", "--help", "main:data", "HEAD^{tree}"])
def test_revision_that_is_no_commit_is_unknown(folder: Path, name: str) -> None:
    with pytest.raises(RejectedError) as refused:
        Repository(folder).revision(name, option="--base")
    assert refused.value.reason == "UnknownRevision"


def test_branch_that_only_the_remote_has_is_found(folder: Path, tmp_path: Path) -> None:
    git(folder, "branch", "release")
    git(tmp_path, "clone", "-q", str(folder), "clone")
    assert Repository(tmp_path / "clone").revision("release", option="--base").commit == git(
        folder, "rev-parse", "release"
    )


def test_change_left_the_remotes_default_branch_where_both_have_the_commit(folder: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(folder), "clone")
    clone = tmp_path / "clone"
    (clone / "data" / "one.txt").write_text("changed")
    git(clone, "commit", "-q", "-a", "-m", "local")
    found = Repository(clone).fork_point(WORKING_TREE)
    assert found.commit == git(folder, "rev-parse", "main")
    assert found.label.startswith("origin/HEAD at ")


def test_repository_without_a_default_branch_says_so(folder: Path) -> None:
    git(folder, "branch", "-m", "trunk")
    with pytest.raises(RejectedError) as refused:
        Repository(folder).fork_point(WORKING_TREE)
    assert "--base" in (refused.value.hint or "")


def test_folder_that_is_not_there_has_no_repository(tmp_path: Path) -> None:
    with pytest.raises(RejectedError) as refused:
        Repository(tmp_path / "nowhere")
    assert refused.value.reason == "NoRepository"


def test_nothing_of_the_repository_is_run(folder: Path) -> None:
    trap = folder / ".git" / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {folder}/sprung\n")
    trap.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(trap))
    git(folder, "config", "core.hooksPath", str(folder / ".git"))
    (folder / "sprung").unlink(missing_ok=True)
    files(folder)
    files(folder, "HEAD")
    assert not (folder / "sprung").exists()


def test_pipe_in_the_place_of_a_file_is_refused_instead_of_read(folder: Path) -> None:
    (folder / "data" / "one.txt").unlink()
    os.mkfifo(folder / "data" / "one.txt")
    with pytest.raises(RejectedError, match="neither a file"):
        files(folder)
