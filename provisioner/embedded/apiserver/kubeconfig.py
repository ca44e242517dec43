"""A kubeconfig for the clusters of one server, so that kubectl and every other client can be pointed at them.

`tenantry embedded` writes it when it starts and whenever a tenant cluster comes or goes. There are no credentials in
it, since on loopback none are needed, unless the server passes requests on to another one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from provisioner.embedded.apiserver.clusters import CONTROL_PLANE


@dataclass(frozen=True, slots=True)
class Access:
    """What clients of a server that is not open to everybody need: a token, and the authority (PEM) behind its
    certificate."""

    token: str = field(repr=False)
    authority: bytes


def write_kubeconfig(path: Path, url: str, tenants: Iterable[tuple[str, str]], *, access: Access | None = None) -> None:
    """Writes one context `control-plane` and one `<project>/<name>` for each tenant cluster, replacing the file whole.

    `url` is the server's; `tenants` are pairs of project and name. Readers see the old file or the new one.
    """
    servers = {CONTROL_PLANE: url}
    servers |= {f"{project}/{name}": tenant_url(url, project, name) for project, name in sorted(tenants)}
    trust = {"certificate-authority-data": base64.b64encode(access.authority).decode()} if access else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTROL_PLANE,
        "clusters": [{"name": name, "cluster": {"server": server, **trust}} for name, server in servers.items()],
        "users": [{"name": "local", "user": {"token": access.token} if access else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "local"}} for name in servers],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(config, sort_keys=False))
    fresh.replace(path)


def tenant_url(url: str, project: str, name: str) -> str:
    """Where a tenant cluster's API is."""
    return f"{url}/kubernetes/project/{project}/virtualcluster/{name}"
