"""The stacks, brought up, changed, refreshed and taken down by Pulumi's own engine: on a real API server, on ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.pack import example_site
from stacks.keys import KEYS
from tests.pulumi.cli import ROOT, Project, link_project, open_project
from tests.pulumi.conftest import Cluster

SECRET = "never-in-clear"
SECRETS = sorted(name for name, key in KEYS.items() if key.is_secret and key.is_required)
TIERS = sorted(path.suffixes[0][1:] for path in ROOT.glob("Pulumi.*-*.yaml"))
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Project:
    """A clone's project with the stacks of the platform and of every tier; the test may change their site."""
    folder = link_project(tmp_path / "project")
    (folder / "site.yaml").write_bytes(example_site().read_bytes())
    project = open_project(folder, kubeconfig=cluster.kubeconfig, home=tmp_path / "home")
    for stack in ("platform", *TIERS):
        project.run("stack", "init", stack)
        project.run("config", "set", "site", "site.yaml", "--stack", stack)
    for key in SECRETS:
        project.run("config", "set", "--secret", key, "--stack", "platform", text=f"{SECRET}-{key}")
    return project


def test_stacks_live_a_whole_life(project: Project, cluster: Cluster) -> None:
    """Ledger: TEN-06, ARG-01, ARG-03, SEC-01."""
    stacks = ("platform", *TIERS)
    for stack in stacks:
        project.up(stack)
    for stack in stacks:
        project.up(stack, "--refresh", "--expect-no-changes")

    change_what_stacks_are_made_from(project)
    assert SECRET not in project.run("preview", "--stack", "platform", "--diff")
    changed = {stack for stack in stacks if "updated" in project.up(stack)}
    assert changed >= {"platform", "dedicated-eu"}
    assert "shared-eu" not in changed, "it has no nodes of its own, so more of them are nothing to it"
    for stack in changed:
        project.up(stack, "--expect-no-changes")

    cluster.kubectl("delete", "configmap", "--namespace", "tenantry", "tenantry-client-ca")
    assert "- 1 deleted" in project.run("refresh", "--stack", "platform", "--yes", "--skip-preview")
    assert "+ 1 created" in project.up("platform")

    assert not files_with(SECRET, project)
    for stack in reversed(stacks):
        take_down(stack, project)


def take_down(stack: str, project: Project) -> None:
    """Destroy a stack; it first says that tenants depend on some of it, and all stays. With `--skip-preview` it says so
    on the way, which a tier begins with its template."""
    before = project.resources(stack)
    told = project.run("destroy", "--stack", stack, "--yes", code=1)
    assert "protected" in told, told
    assert project.resources(stack) == before
    if stack in TIERS:
        project.run("destroy", "--stack", stack, "--yes", "--skip-preview", "--suppress-progress", code=1)
        assert on_cluster(project.resources(stack)) == on_cluster(before)
    project.run("state", "unprotect", "--all", "--yes", "--stack", stack)
    project.run("destroy", "--stack", stack, "--yes", "--skip-preview", "--suppress-progress")
    assert project.resources(stack) == []


def on_cluster(resources: list[dict[str, Any]]) -> set[str]:
    """The resources that are objects of a cluster."""
    return {str(found["urn"]) for found in resources if found["type"].startswith("kubernetes:")}


def change_what_stacks_are_made_from(project: Project) -> None:
    """New credentials for the platform, and more nodes of one type for every tier."""
    project.run("config", "set", "--secret", "connectorSecret", "--stack", "platform", text=f"{SECRET}-renewed")
    site = project.folder / "site.yaml"
    text = site.read_text()
    assert text.count("maxCapacity: 16") > 1
    site.write_text(text.replace("maxCapacity: 16", "maxCapacity: 17"))


def files_with(secret: str, project: Project) -> list[Path]:
    """The files of the project and of its backend that hold a secret in clear."""
    folders = (project.folder, Path(project.environment["HOME"]))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if secret.encode() in path.read_bytes()]
