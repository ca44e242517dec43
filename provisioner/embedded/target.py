"""The API server that a kubeconfig's current context names, as the controllers can reach it.

lightkube reads the file and the certificates. Credentials that a program has to make anew again and again (cloud
clusters) are refused: the playground is for clusters of one's own. Called by `attach` only.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User

from provisioner.domain.errors import RejectedError


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
    try:
        config = KubeConfig.from_file(kubeconfig).get()
        if config is None:
            raise KeyError("current-context")
        user = config.user or User()
        token = _token(config, user)
        tls = verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
    except RejectedError:
        raise
    except Exception as error:  # a file can be broken in as many ways as its readers have errors
        raise RejectedError(
            f"reading kubeconfig: {type(error).__name__}: `{kubeconfig}`",
            reason="BadKubeconfig",
            hint="`kubectl config view --minify --raw` prints one with the current context alone",
        ) from error
    url = config.cluster.server.rstrip("/")
    return Target(config.context_name, url, token, tls if url.startswith("https:") else None)


def _token(config: SingleConfig, user: User) -> str | None:
    if user.exec or user.auth_provider or user.username:
        raise RejectedError(
            f"reading credentials: neither a token nor a client certificate in context: `{config.context_name}`",
            reason="UnsupportedCredentials",
            hint="bind the playground's ClusterRole to a service account, take its token with `kubectl create token`",
        )
    if user.token_file:
        return Path(config.abs_file(user.token_file)).read_text().strip()
    token: str | None = user.token
    return token
