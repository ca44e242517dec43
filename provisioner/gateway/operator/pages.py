"""What an operator is told: health, readiness, metrics, the queues, and the configuration in force.

`listener` shows these pages on the operator's address. A gateway that stands alone shows the public ones, which name no
customer, on its only address. No page holds a secret: keys appear as a number only.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from provisioner.domain.exposition import CONTENT_TYPE
from provisioner.domain.snapshot import Route
from provisioner.gateway.config import GatewayConfig
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.operator.counters import Gauged, prometheus_text
from provisioner.gateway.operator.demand import demand, waiting
from provisioner.gateway.operator.page import Page, Pages
from provisioner.gateway.replica.worker_set import Generation

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


class OperatorPages:
    """Makes the pages from the running objects; `age` is how long ago the snapshot in use was confirmed, and `routers`
    are the local routers that serve."""

    def __init__(
        self,
        config: GatewayConfig,
        path: DataPath,
        age: Callable[[], timedelta | None],
        routers: Callable[[], Sequence[Generation]],
    ) -> None:
        self._config = config
        self._path = path
        self._age = age
        self._routers = routers
        self.public: Pages = {
            b"/healthz": self._healthz,
            b"/readyz": self._readyz,
            b"/metrics": self._metrics,
            b"/status": self._status,
        }
        self.all: Pages = {**self.public, b"/config": self._configuration}

    def _healthz(self) -> Page:
        return Page(200, _TEXT, b"ok\n")

    def _readyz(self) -> Page:
        if self._path.is_draining:
            return Page(503, _TEXT, b"draining\n")
        if self._path.directory is None:
            return Page(503, _TEXT, b"no usable snapshot\n")
        return Page(200, _TEXT, b"ready\n")

    def _metrics(self) -> Page:
        directory, age = self._path.directory, self._age()
        gauges: dict[str, Gauged] = {
            "connections": len(self._path.connections),
            "body_bytes": self._path.body_memory.held_bytes,
            "usage_waiting": self._path.accounting.waiting,
            "waiting_requests": waiting(self._path),
            "demand": demand(self._path, asyncio.get_running_loop().time()),
            **_queue_gauges(self._path.queue.status()["backends"]),
            "replicas": self._path.replicas.by_state(),
            "endpoint_replicas_out": self._path.replicas.out_by_endpoint(),
        }
        if directory is not None:
            gauges["snapshot_version"] = directory.snapshot.version
        if age is not None:
            gauges["snapshot_age_seconds"] = age.total_seconds()
        measured = self._path.accounting.measures.lines()
        return Page(200, CONTENT_TYPE, prometheus_text(self._path.counters, gauges, measured).encode())

    def _status(self) -> Page:
        """The queues. Where there is none, nobody counts who comes and goes: those that are there now are counted."""
        told, served = self._path.queue.status(), self._served()
        backends = [
            backend if backend["active"] is not None else {**backend, "active": served[backend["backend"]]}
            for backend in told["backends"]
        ]
        return _json({**told, "backends": backends})

    def _served(self) -> Counter[str]:
        """Requests that are here now, by the name of their group."""
        directory = self._path.directory
        routes = directory.snapshot.routes if directory is not None else ()
        groups = {route.endpoint: route.group or route.endpoint for route in routes}
        endpoints = (connection.is_for() for connection in self._path.connections)
        return Counter(groups[endpoint] for endpoint in endpoints if endpoint in groups)

    def _configuration(self) -> Page:
        directory, age, config = self._path.directory, self._age(), self._config
        snapshot = directory.snapshot if directory else None
        queueing = asdict(config.queueing)
        queueing["identity_key"] = config.queueing.identity_key is not None
        return _json(
            {
                "draining": self._path.is_draining,
                "connections": len(self._path.connections),
                "snapshot": snapshot
                and {
                    "version": snapshot.version,
                    "created_at": snapshot.created_at.isoformat(),
                    "age_seconds": age.total_seconds() if age is not None else None,
                    "keys": len(snapshot.keys),
                    "gateways": snapshot.gateways,
                },
                "routes": [_route(route) for route in (snapshot.routes if snapshot else ())],
                "groups": [asdict(group) for group in (snapshot.groups if snapshot else ())],
                "limits": asdict(config.limits),
                "queueing": queueing,
                "probing": asdict(config.probing),
                "balancing": asdict(config.balancing),
                "routers": [asdict(generation) for generation in self._routers()],
                "asks_for_usage": config.usage.asks_for_usage,
            }
        )


def _queue_gauges(backends: Sequence[Mapping[str, Any]]) -> dict[str, Gauged]:
    """Slots and queued requests of all groups together: their names may be customers'."""
    queued = Counter[str]()
    for backend in backends:
        queued.update(backend["queued"])
    taken = sum(backend["active"] or 0 for backend in backends)
    return {"slots": {"all": sum(backend["slots"] for backend in backends), "taken": taken}, "queued_requests": queued}


def _route(route: Route) -> dict[str, Any]:
    return {
        "tenant": route.tenant,
        "alias": route.alias,
        "endpoint": route.endpoint,
        "upstream_model": route.upstream_model,
        "group": route.group,
        "teams": route.teams,
        "is_open": route.is_open,
        "max_tokens": route.max_tokens,
        "backends": [backend.host for backend in route.backends],
    }


def _json(content: object) -> Page:
    return Page(200, _JSON, json.dumps(content).encode())
