"""The API server that a kubeconfig's current context names, as the controllers can reach it.

lightkube reads the file and the certificates. Credentials that a program has to make anew again and again (cloud
clusters) are refused: the playground is for clusters of one's own. Called by `attach` only.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.models import User

from provisioner.domain.errors import RejectedError
from provisioner.platform.kubeconfig import context_of, explained, read_kubeconfig


@dataclass(frozen=True, slots=True)
class Target:
    """Where an API server is and how to speak to it."""

    context: str
    url: str
    token: str | None = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)


def read_target(kubeconfig: Path) -> Target:
    """The target of the current context. Raises RejectedError when the file, its certificates or its kind of
    credentials cannot be used."""
    config = read_kubeconfig(kubeconfig)
    name = config.current_context
    if name is None or name not in config.contexts:
        told = "no current context" if name is None else f"unknown context: `{name}`"
        raise RejectedError(
            f"reading kubeconfig: {told}: {kubeconfig}",
            reason="UnknownContext",
            hint=f"`kubectl --kubeconfig {kubeconfig} config use-context NAME`; "
            f"it has: {', '.join(sorted(config.contexts)) or 'none'}",
        )
    found = context_of(config, name, path=kubeconfig)
    user = found.user or User()
    token = explained(kubeconfig, lambda: _token(name, user))
    tls = explained(kubeconfig, lambda: verify_cluster(found.cluster, user, found.abs_file, trust_env=False))
    url = found.cluster.server.rstrip("/")
    return Target(name, url, token, tls if url.startswith("https:") else None)


def _token(context: str, user: User) -> str | None:
    if user.exec or user.auth_provider or user.username:
        raise RejectedError(
            f"reading credentials: neither a token nor a client certificate in context: `{context}`",
            reason="UnsupportedCredentials",
            hint="bind the playground's ClusterRole to a service account, take its token with `kubectl create token`",
        )
    if user.token_file:
        return Path(user.token_file).read_text().strip()
    token: str | None = user.token
    return token
