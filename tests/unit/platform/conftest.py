"""Clusters of the embedded API server, reached as a real one is: by a kubeconfig with a service key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pytest import FixtureRequest

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.clusters import LightkubeClusters

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: one, cluster: {{server: "{url}"}}}}]
users: [{{name: service, user: {{token: service-key}}}}]
contexts: [{{name: control-plane, context: {{cluster: one, user: service}}}}]
"""


def write_kubeconfig(folder: Path, url: str) -> Path:
    """A kubeconfig with the context `control-plane` and a service key."""
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(url=url))
    return path


@pytest.fixture(params=["apply", "refused-apply"])
async def clusters(request: FixtureRequest, tmp_path: Path) -> AsyncIterator[LightkubeClusters]:
    """Clusters of a fresh server; one of the two refuses server-side apply of the Platform's kinds."""
    refuse_apply = request.param == "refused-apply"
    server = await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=SystemClock(), refuse_apply=refuse_apply)
    clusters = LightkubeClusters(write_kubeconfig(tmp_path, server.url))
    yield clusters
    await clusters.close()
    await server.close()


@pytest.fixture
def cluster(clusters: LightkubeClusters) -> HttpCluster:
    """The control plane cluster."""
    return clusters.control_plane("control-plane")
