"""Finds clusters: a kubeconfig context per control plane cluster, and each tenant cluster behind its Platform's proxy.

A context names an API server that serves everything, or a cluster behind vCluster Platform's proxy
(`https://<platform>/kubernetes/cluster/<name>`) with the Platform's own kinds and the tenant clusters beside it; either
way one service key leads everywhere. Clients are opened when first used and closed together. Never holds a customer's
key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2
from lightkube.config.client_adapter import AsyncClient, ConnectionParams

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.kubeconfig import context_of, explained, read_kubeconfig

TIMEOUT = httpx2.Timeout(15.0, connect=5.0)

_PROXY = "/kubernetes/cluster/"


@dataclass
class _Connections(ConnectionParams):
    """How a server is connected to. The client looks at every connection for each request, so there are not many."""

    timeout: httpx2.Timeout | None = field(default_factory=lambda: TIMEOUT)
    trust_env: bool = False
    limits: httpx2.Limits = field(
        default_factory=lambda: httpx2.Limits(max_connections=16, max_keepalive_connections=16)
    )


@dataclass(frozen=True, slots=True)
class _Server:
    http: httpx2.AsyncClient
    url: str

    @property
    def root(self) -> str:
        """The URL without the Platform's path to one of its clusters."""
        return self.url.partition(_PROXY)[0]

    @property
    def is_behind_platform(self) -> bool:
        """Whether the URL has such a path."""
        return _PROXY in self.url


class LightkubeClusters:
    """`Clusters` of a kubeconfig whose contexts are named like the control plane clusters of the Site."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._servers: dict[str, _Server] = {}

    def control_plane(self, name: str) -> HttpCluster:
        """The control plane cluster called `name`. RejectedError when the kubeconfig has no such context, or one that
        cannot be used."""
        server = self._server(name)
        platform = f"{server.root}/kubernetes/management" if server.is_behind_platform else server.url
        return HttpCluster(server.http, server.url, platform_url=platform)

    def tenant(self, control_plane: str, project: str, name: str) -> HttpCluster:
        """A tenant cluster through the Platform's proxy."""
        server = self._server(control_plane)
        place = f"/kubernetes/project/{quote(project, safe='')}/virtualcluster/{quote(name, safe='')}"
        return HttpCluster(server.http, server.root + place)

    async def close(self) -> None:
        """Close every connection."""
        for server in self._servers.values():
            await server.http.aclose()
        self._servers.clear()

    def _server(self, context: str) -> _Server:
        if context not in self._servers:
            self._servers[context] = self._open(context)
        return self._servers[context]

    def _open(self, context: str) -> _Server:
        path = self._kubeconfig
        kubeconfig = read_kubeconfig(path)
        if context not in kubeconfig.contexts:
            raise RejectedError(
                f"finding control plane cluster `{context}`: no such context in kubeconfig: {path}",
                reason="UnknownControlPlane",
                hint=f"{unknown_name_hint(context, kubeconfig.contexts)}; a context has to be named like the region's "
                "controlPlane in site.yaml",
            )
        config = context_of(kubeconfig, context, path=path)
        if config.cluster.server.startswith("http://"):
            config.cluster.insecure = True  # no certificate to check, so no authorities are loaded: 40 ms
        http = explained(path, lambda: AsyncClient(config, _Connections()))
        return _Server(http, config.cluster.server.rstrip("/"))
