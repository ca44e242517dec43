"""Finds clusters: a kubeconfig context per control plane cluster, and each tenant cluster behind its Platform's proxy.

A context names an API server that serves everything, or a cluster behind vCluster Platform's proxy
(`https://<platform>/kubernetes/cluster/<name>`) with the Platform's own kinds and the tenant clusters beside it; either
way one service key leads everywhere. Clients are opened when first used and closed together. Never holds a customer's
key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.connection import Connection
from provisioner.platform.kubeconfig import context_of, explained, read_kubeconfig

_PROXY = "/kubernetes/cluster/"


@dataclass(frozen=True, slots=True)
class _Server:
    connection: Connection
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
        return HttpCluster(server.connection, server.url, platform_url=platform)

    def tenant(self, control_plane: str, project: str, name: str) -> HttpCluster:
        """A tenant cluster through the Platform's proxy."""
        server = self._server(control_plane)
        place = f"/kubernetes/project/{quote(project, safe='')}/virtualcluster/{quote(name, safe='')}"
        return HttpCluster(server.connection, server.root + place)

    async def close(self) -> None:
        """Close every connection."""
        for server in self._servers.values():
            await server.connection.close()
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
        connection = explained(path, lambda: _connection(config))
        return _Server(connection, config.cluster.server.rstrip("/"))


def _connection(config: SingleConfig) -> Connection:
    """What a context says of TLS and credentials; without TLS no authorities are loaded, which takes 40 ms."""
    cluster, user = config.cluster, config.user or User()
    is_plain = cluster.server.startswith("http://")
    tls = None if is_plain else verify_cluster(cluster, user, config.abs_file, trust_env=False)
    return Connection(tls, user_auth(user))
