"""Namespaces: each has its default service account while it lives; when it is removed, everything inside is deleted,
and only then the namespace lets go."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from provisioner.domain.clock import Clock
from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.kinds import SERVICE_ACCOUNT
from provisioner.embedded.controllers.kinds import NAMESPACE
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

_FINALIZER = "kubernetes"
_LOOK_SECONDS = 0.1


def namespace_controller(*, clock: Clock) -> Controller:
    """Makes a namespace's service account; empties one that was deleted, kind by kind as the server serves them, then
    takes off its finalizer."""
    return Controller("namespaces", (Watch(NAMESPACE),), _Namespaces(clock).reconcile)


@dataclass(frozen=True, slots=True)
class _Namespaces:
    clock: Clock

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        found = await cluster.api.get(NAMESPACE, key.name)
        if found is None:
            return None
        if "deletionTimestamp" not in found["metadata"]:
            await _ensure_account(cluster, key.name)
            return None
        left: dict[str, int] = {}
        for kind in await cluster.api.kinds():
            if not kind.namespaced:
                continue
            for item in await cluster.api.list(kind, namespace=key.name):
                if "deletionTimestamp" not in item["metadata"]:
                    await cluster.api.delete(kind, item["metadata"]["name"], namespace=key.name)
                left[kind.plural] = left.get(kind.plural, 0) + 1
        if left:
            text = ", ".join(f"{count} {plural}" for plural, count in sorted(left.items()))
            remaining = Condition("NamespaceContentRemaining", met=True, reason="SomeResourcesRemain", message=text)
            await write_conditions(cluster.api, NAMESPACE, found, (remaining,), now=self.clock.now())
            return _LOOK_SECONDS
        finalizers = [name for name in found["spec"].get("finalizers") or () if name != _FINALIZER]
        await cluster.api.update(NAMESPACE, {**found, "spec": {"finalizers": finalizers}}, subresource="finalize")
        return None


async def _ensure_account(cluster: Cluster, namespace: str) -> None:
    if await cluster.api.get(SERVICE_ACCOUNT, "default", namespace=namespace) is not None:
        return
    head = {"apiVersion": SERVICE_ACCOUNT.api_version, "kind": SERVICE_ACCOUNT.kind}
    with contextlib.suppress(ConflictError):  # somebody was quicker
        await cluster.api.create(SERVICE_ACCOUNT, {**head, "metadata": {"name": "default", "namespace": namespace}})
