"""A real API server, one for each module that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import servers


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a kube-apiserver without any controllers."""
    folder = tmp_path_factory.mktemp("kube-apiserver")
    with servers.kube_apiserver(folder) as server:
        yield server.write_kubeconfig(folder / "kubeconfig")
