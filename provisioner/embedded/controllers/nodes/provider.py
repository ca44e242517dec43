"""Node providers: each becomes its node types, whose status counts what is claimed of what there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.kinds import NODE_CLAIM, NODE_PROVIDER, NODE_TYPE
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

PROVIDER_KINDS = ("bcm", "kubeVirt", "terraform", "clusterAPI", "metal3")
_MANAGER = "vcluster-platform"
_UNBOUNDED = 1000
"""Nodes of a type without `maxCapacity`: the laptop's cloud is never exhausted before a project's quota is."""


class Providers:
    """NodeProvider -> NodeTypes `<provider>.<type>`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def controller(self) -> Controller:
        """Looks at a provider again whenever one of its types or claims changes."""
        return Controller(
            "node providers",
            (Watch(NODE_PROVIDER), Watch(NODE_TYPE, _provider_key), Watch(NODE_CLAIM, _provider_key)),
            self.reconcile,
        )

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Make the provider's node types so, remove those it dropped, and count claims."""
        provider = await cluster.api.get(NODE_PROVIDER, key.name)
        present = [kind for kind in await cluster.api.list(NODE_TYPE) if spec_of(kind).get("providerRef") == key.name]
        kinds = [kind for kind in PROVIDER_KINDS if provider and kind in spec_of(provider)]
        wanted = _node_types(provider, kinds[0]) if provider and len(kinds) == 1 else {}
        for node_type in present:
            if node_type["metadata"]["name"] not in wanted:
                await cluster.api.delete(NODE_TYPE, node_type["metadata"]["name"])
        if provider is None:
            return None
        claims = await cluster.api.list(NODE_CLAIM)
        claimed = Counter(spec_of(claim).get("typeRef") for claim in claims)
        for name, (manifest, total) in wanted.items():
            stored = await cluster.api.apply(NODE_TYPE, manifest, manager=_MANAGER)
            await self._write_type_status(cluster, stored, total, claimed[name])
        good = len(kinds) == 1
        message = "" if good else f"exactly one provider is required, found: {', '.join(kinds) or 'none'}"
        conditions = [
            Condition(name, good, "" if good else "InvalidProvider", message, "Error")
            for name in ("Initialized", "Deployed")
        ]
        phase = "Available" if good else "Failed"
        await write_conditions(
            cluster.api, NODE_PROVIDER, provider, conditions, now=self._clock.now(), phase=phase, message=message
        )
        return None

    async def _write_type_status(self, cluster: Cluster, node_type: Json, total: int, claimed: int) -> None:
        room = claimed < total
        conditions = (
            Condition("Synced", True),
            Condition(
                "HasCapacity", room, "" if room else "NoCapacity", "" if room else "all nodes are claimed", "Info"
            ),
        )
        capacity = {"total": total, "claimed": claimed}
        await write_conditions(
            cluster.api, NODE_TYPE, node_type, conditions, now=self._clock.now(), phase="Available", capacity=capacity
        )


def _provider_key(found: Json) -> Iterable[Key]:
    name = spec_of(found).get("providerRef")
    return (Key(None, name),) if name else ()


def _node_types(provider: Json, kind: str) -> dict[str, tuple[Json, int]]:
    """Each type's manifest and how many nodes of it there can be."""
    name = provider["metadata"]["name"]
    owner = {
        "apiVersion": provider["apiVersion"],
        "kind": "NodeProvider",
        "name": name,
        "uid": provider["metadata"]["uid"],
    }
    types: dict[str, tuple[Json, int]] = {}
    for offer in spec_of(provider)[kind].get("nodeTypes") or ():
        spec = {"providerRef": name, "resources": offer.get("resources") or {}}
        spec["properties"] = {**(spec_of(provider).get("properties") or {}), **(offer.get("properties") or {})}
        spec |= {field: offer[field] for field in ("displayName", "cost", "overhead") if field in offer}
        metadata = {"name": f"{name}.{offer['name']}", "ownerReferences": [owner], **(offer.get("metadata") or {})}
        types[metadata["name"]] = {"metadata": metadata, "spec": spec}, offer.get("maxCapacity", _UNBOUNDED)
    return types
