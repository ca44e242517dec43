"""Reads kubeconfigs with lightkube; whatever is wrong with one becomes a refusal that names the file, and no secret.

Called by whoever reaches clusters: `clusters`, and the embedded control plane where it attaches to one.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User

from provisioner.domain.errors import RejectedError

T = TypeVar("T")

_HINT = (
    "`kubectl config view --minify --raw` prints one with the current context alone; the file is named by "
    "TENANTRY_KUBECONFIG, TENANTRY_BOOTSTRAP_KUBECONFIG or --attach"
)


def read_kubeconfig(path: Path) -> KubeConfig:
    """The file's clusters, users and contexts. Raises RejectedError `BadKubeconfig`."""
    return explained(path, lambda: KubeConfig.from_file(path))


def context_of(config: KubeConfig, name: str, *, path: Path) -> SingleConfig:
    """A context that is there, with its cluster and its user; without one, a user that has no credentials.

    Raises RejectedError `BadKubeconfig` for a context that names what is not there, or no address.
    """
    context = config.contexts[name]
    for what, named, known in (("cluster", context.cluster, config.clusters), ("user", context.user, config.users)):
        if named and named not in known:
            raise _bad(path, f"context `{name}` names a {what} that is not there: `{named}`")
    cluster, user = config.clusters[context.cluster], config.users[context.user] if context.user else User()
    found = SingleConfig(context_name=name, context=context, cluster=cluster, user=user, fname=path)
    if not cluster.server.startswith(("http://", "https://")):
        raise _bad(path, f"context `{name}` has no http:// or https:// address: `{cluster.server}`")
    if user.token_file:
        user.token_file = str(found.abs_file(user.token_file))  # beside the kubeconfig, as kubectl has it
    return found


def explained(path: Path, made_from_it: Callable[[], T]) -> T:
    """What is made from the kubeconfig; where that fails for the file's sake, RejectedError `BadKubeconfig`."""
    try:
        return made_from_it()
    except RejectedError:
        raise
    except Exception as error:  # a file can be broken in as many ways as its readers have errors
        error.with_traceback(None)  # its frames would keep the reader's temporary files, in which keys are
        raise _bad(path, _told(error, path)) from error


def _bad(path: Path, what: str) -> RejectedError:
    return RejectedError(f"reading kubeconfig: {what}: {path}", reason="BadKubeconfig", hint=_HINT)


def _told(error: Exception, path: Path) -> str:
    """The error without what stands in the file, where readers quote it: tokens and keys stand there too."""
    if not path.is_file():
        return "no such file"
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return f"no YAML, line {mark.line + 1}" if mark else "no YAML"
    if isinstance(error, ssl.SSLError):
        return "certificate or key that cannot be read"
    if isinstance(error, OSError):
        return f"{(error.strerror or type(error).__name__).lower()}{f' ({error.filename})' if error.filename else ''}"
    if isinstance(error, KeyError):
        return f"it has no `{error.args[0]}`"
    if isinstance(error, TypeError | AttributeError):
        return "not in the form of a kubeconfig"
    return str(error) or type(error).__name__
