"""Pulumi's own engine and provider against each API server: a small program with a definition and an object of it.

What breaks here is the tool chain or the API server, not a stack.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pulumi.cli import Project, open_project
from tests.pulumi.conftest import Cluster

PROGRAM = """
import pulumi

provider = pulumi.ProviderResource("kubernetes", "cluster", {"enableConfigMapMutable": "true"})


def make(kind, api, name, properties, after=(), metadata=None):
    document = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **properties}
    token = f"kubernetes:{api if '/' in api else 'core/' + api}:{kind}"
    options = pulumi.ResourceOptions(provider=provider, depends_on=list(after))
    return pulumi.CustomResource(token, f"{kind}/{name}", document, options)


size = pulumi.Config().require_int("size")
schema = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
}
version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
space = make("Namespace", "v1", "toolchain", {})
definition = make(
    "CustomResourceDefinition",
    "apiextensions.k8s.io/v1",
    "widgets.toolchain.example.com",
    {"spec": {"group": "toolchain.example.com", "scope": "Namespaced", "names": names, "versions": [version]}},
)
inside = {"namespace": "toolchain"}
make("ConfigMap", "v1", "settings", {"data": {"size": str(size)}}, [space], inside)
make("Widget", "toolchain.example.com/v1", "one", {"spec": {"size": size}}, [space, definition], inside)
pulumi.export("size", size)
"""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Project:
    """The program as a project with one stack."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: toolchain\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM)
    project = open_project(folder, kubeconfig=cluster.kubeconfig, home=tmp_path / "home")
    project.run("stack", "init", "one")
    project.run("config", "set", "size", "1")
    return project


@pytest.mark.timeout(600)
def test_a_program_is_brought_up_changed_refreshed_and_destroyed(project: Project) -> None:
    assert "+ 6 created" in project.up("one")
    project.up("one", "--expect-no-changes")
    project.run("refresh", "--stack", "one", "--yes", "--expect-no-changes")
    project.run("config", "set", "size", "2")
    assert "~ 2 updated" in project.up("one")
    project.run("preview", "--stack", "one", "--expect-no-changes")
    assert "- 6 deleted" in project.run("destroy", "--stack", "one", "--yes", "--skip-preview")
    assert project.resources("one") == []


@pytest.mark.timeout(600)
def test_what_the_schema_refuses_is_told_before_anything_changes(project: Project) -> None:
    project.up("one")
    project.run("config", "set", "size", "0")
    told = project.run("preview", "--stack", "one", code=1)
    assert "spec.size: Invalid value: 0" in told
    project.run("destroy", "--stack", "one", "--yes", "--skip-preview")
