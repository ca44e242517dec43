"""Which replicas a local router spreads requests over, and by which policy: a digest says just that. Made by `routers`.
Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.domain.snapshot import Backend

CACHE_AWARE = "cache_aware"
"""The policy that prefers the worker whose earlier prompts share the longest beginning; `vllm-router --policy`."""


@dataclass(frozen=True, slots=True)
class WorkerSet:
    """A policy and its workers, in the order of their names."""

    workers: tuple[Backend, ...]
    policy: str

    @property
    def digest(self) -> str:
        """SHA-256 over the policy and the workers' names and addresses, whatever order they came in."""
        content = [self.policy, *([worker.host, worker.address] for worker in self.workers)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A router process that came to serve. Numbers grow within an instance."""

    endpoint: str
    instance: str
    number: int
    workers: str
    """The digest of its worker set."""
    replicas: tuple[str, ...]


def worker_set(healthy: Sequence[Backend], policy: str = CACHE_AWARE) -> WorkerSet:
    """The set of these replicas."""
    return WorkerSet(tuple(sorted(healthy, key=lambda backend: (backend.host, backend.address))), policy)
