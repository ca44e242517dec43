"""Services of type LoadBalancer get an address, as from a cloud, so that nobody waits for one: this machine's."""

from __future__ import annotations

from provisioner.embedded.controllers.core.kinds import SERVICE
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

_ADDRESS = "127.0.0.1"


def load_balancer_controller() -> Controller:
    """Writes the address; nothing listens there on a Service's behalf."""
    return Controller("load balancers", (Watch(SERVICE),), _reconcile)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    found = await cluster.api.get(SERVICE, key.name, namespace=key.namespace)
    if found is not None and found["spec"].get("type") == "LoadBalancer":
        ingress = (found.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
        if [entry.get("ip") for entry in ingress] != [_ADDRESS]:
            await cluster.api.write_status(SERVICE, found, {"loadBalancer": {"ingress": [{"ip": _ADDRESS}]}})
    return None
