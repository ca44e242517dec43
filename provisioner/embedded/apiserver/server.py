"""The API server as others start it: opens the state, listens, and stops cleanly.

`tenantry embedded` and tests call `serve_api`; controllers and clients then know nothing but its URL. This is the only
module that joins storage, clusters and routes.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from provisioner.domain.clock import Clock
from provisioner.domain.errors import RejectedError
from provisioner.embedded.apiserver.clusters import (
    MANAGEMENT_GROUP,
    MAX_OBJECT_BYTES,
    Clusters,
    Surroundings,
    tenant_name,
)
from provisioner.embedded.apiserver.kinds import load_builtins
from provisioner.embedded.apiserver.routes.dispatch import Dispatcher
from provisioner.embedded.apiserver.routes.forwarding import Upstream
from provisioner.embedded.apiserver.storage import Storage

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SHUTDOWN_SECONDS: Final = 2.0


@dataclass(slots=True)
class ApiServer:
    """A running server."""

    url: str
    _runner: web.AppRunner
    _clusters: Clusters
    _storage: Storage

    def host_tenants(self, tenants: Mapping[tuple[str, str], bool]) -> None:
        """With an `upstream`: the tenant clusters that exist, by project and name, and whether each is ready. The data
        of all others is removed."""
        self._clusters.host({tenant_name(*tenant): is_ready for tenant, is_ready in tenants.items()})

    async def close(self) -> None:
        """Ends all watches, stops listening and closes the state."""
        self._clusters.end_watches()
        await self._runner.cleanup()
        self._storage.close()


async def serve_api(
    *,
    state: Path,
    host: str,
    port: int,
    clock: Clock,
    refuse_apply: bool = False,
    history: int = 10_000,
    upstream: Upstream | None = None,
) -> ApiServer:
    """Starts the server with its state in the directory `state`; `port` 0 takes a free one.

    `refuse_apply` has the management group answer 415 to server-side apply, as an aggregated API may; `history` is the
    number of changes of each cluster that a watch can resume from; with `upstream` the control plane cluster is there,
    and only tenant clusters (`host_tenants`) are served from here. Raises RejectedError when the state is in use or
    `host` is not a loopback address.
    """
    if host not in LOOPBACK:
        raise RejectedError(
            f"listening for the embedded control plane: it has no passwords and stays on loopback: {host}",
            hint=f"choose one of {', '.join(sorted(LOOPBACK))}",
        )
    load_builtins()
    storage = Storage(state / "apiserver.sqlite", history=history)
    surroundings = Surroundings(clock=clock, new_uid=_random_uid, new_suffix=_random_suffix, logs=state / "pods")
    clusters = Clusters(storage, surroundings, hosts=upstream is not None)
    refused = frozenset({MANAGEMENT_GROUP}) if refuse_apply else frozenset()
    application = web.Application(client_max_size=MAX_OBJECT_BYTES)
    dispatcher = Dispatcher(clusters, refuse_apply=refused, upstream=upstream)
    application.router.add_route("*", "/{path:.*}", dispatcher.__call__)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=upstream.tls if upstream else None)
        await site.start()
    except OSError:
        await runner.cleanup()
        storage.close()
        raise
    bound = runner.addresses[0][1]
    logging.getLogger(__name__).info("serving the Kubernetes API on port %s", bound)
    name = f"[{host}]" if ":" in host else host
    return ApiServer(f"{'https' if upstream else 'http'}://{name}:{bound}", runner, clusters, storage)


def _random_uid() -> str:
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


def _random_suffix() -> str:
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(5))
