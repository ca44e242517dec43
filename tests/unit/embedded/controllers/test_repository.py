"""Reading the delivery repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.embedded.controllers.argocd.repository import Repository
from provisioner.embedded.seed import ensure_repository
from tests.unit.embedded.controllers.delivery import commit

_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"


@pytest.fixture
async def bare(tmp_path: Path) -> Path:
    path = tmp_path / "delivery.git"
    await ensure_repository(path)
    await ensure_repository(path)  # making it again changes nothing
    return path


async def test_manifests_of_a_path_are_read_at_a_revision(bare: Path) -> None:
    first = commit(bare, "ep-one", {"endpoints/ep-one/a.yaml": _MAP.format(name="a")})
    second = commit(bare, "ep-one", {"endpoints/ep-one/b.yaml": _MAP.format(name="b")})
    repository = Repository(bare)
    assert await repository.commit("ep-one") == second
    assert await repository.commit(first) == first
    assert [found["metadata"]["name"] for found in await repository.read(first, "endpoints/ep-one")] == ["a"]
    assert [found["metadata"]["name"] for found in await repository.read(second, "endpoints/ep-one")] == ["b"]


async def test_only_manifests_directly_under_the_path_count(bare: Path) -> None:
    listed = {"kind": "List", "apiVersion": "v1", "items": [yaml.safe_load(_MAP.format(name="three"))]}
    files = {
        "app/one.yaml": _MAP.format(name="one") + "---\n" + _MAP.format(name="two"),
        "app/list.json": json.dumps(listed),
        "app/README.md": "# no manifest",
        "app/deeper/four.yaml": _MAP.format(name="four"),
        "application/five.yaml": _MAP.format(name="five"),
    }  # fmt: skip
    sha = commit(bare, "ep-one", files)
    found = await Repository(bare).read(sha, "app")
    assert [manifest["metadata"]["name"] for manifest in found] == ["three", "one", "two"]


@pytest.mark.parametrize("revision", ["nowhere", "--help", "-x", "ep-one:endpoints", "a b"])
async def test_unknown_revision_is_not_found(bare: Path, revision: str) -> None:
    commit(bare, "ep-one", {"a.yaml": _MAP.format(name="a")})
    with pytest.raises(NotFoundError):
        await Repository(bare).commit(revision)


async def test_unknown_path_is_not_found(bare: Path) -> None:
    sha = commit(bare, "ep-one", {"a.yaml": _MAP.format(name="a")})
    with pytest.raises(NotFoundError, match="app path does not exist"):
        await Repository(bare).read(sha, "endpoints/ep-two")


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "a/../../b"])
async def test_path_that_leaves_the_repository_is_refused(bare: Path, path: str) -> None:
    sha = commit(bare, "ep-one", {"a.yaml": _MAP.format(name="a")})
    with pytest.raises(RejectedError, match="path leaves it"):
        await Repository(bare).read(sha, path)


@pytest.mark.parametrize(
    "text", ["a: [", "- only\n- a list\n", "kind: ConfigMap\n", "apiVersion: v1\nkind: X\nmetadata: text\n", "plain"]
)
async def test_file_that_is_no_manifest_is_refused_by_name(bare: Path, text: str) -> None:
    sha = commit(bare, "ep-one", {"app/bad.yaml": text})
    with pytest.raises(RejectedError, match=r"app/bad\.yaml"):
        await Repository(bare).read(sha, "app")


async def test_plain_scalar_that_looks_like_a_date_stays_a_string(bare: Path) -> None:
    sha = commit(bare, "ep-one", {"app/a.yaml": _MAP.format(name="a") + "data:\n  day: 2026-01-01\n"})
    (found,) = await Repository(bare).read(sha, "app")
    assert found["data"] == {"day": "2026-01-01"}


def test_only_this_repository_is_a_source(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "delivery.git")
    assert repository.is_source(str(tmp_path / "delivery.git"))
    assert repository.is_source(f"file://{tmp_path}/delivery.git")
    assert not repository.is_source(str(tmp_path / "other.git"))
    assert not repository.is_source("https://charts.example.com")
    assert not repository.is_source("oci://registry.example.com/charts")


async def test_users_git_configuration_does_not_matter(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = commit(bare, "ep-one", {"app/a.yaml": _MAP.format(name="a")})
    config = tmp_path / "gitconfig"
    config.write_text("[alias]\n\tarchive = !false\n[core]\n\trepositoryformatversion = 99\n[broken\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert subprocess.run(["git", "--git-dir", bare, "rev-parse", sha], capture_output=True).returncode != 0
    assert len(await Repository(bare).read(sha, "app")) == 1
