"""Requests about projects: what each tenant may use of each tier. Pure."""

from __future__ import annotations

from provisioner.client.call import Call, Flow, every, get, path_of
from provisioner.wire.project import ProjectView


def list_projects(tenant: str | None = None) -> Flow[ProjectView]:
    """Every project, or a tenant's."""
    return every(ProjectView, "/projects", {"tenant": tenant})


def get_project(name: str) -> Call[ProjectView]:
    """One project."""
    return get(ProjectView, path_of("projects", name))
