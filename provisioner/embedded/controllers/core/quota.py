"""ResourceQuota status: what a namespace uses of what it may use. Enforcement is the API server's matter, not ours."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import CONFIG_MAP, QUOTA, SERVICE, VOLUME_CLAIM
from provisioner.embedded.controllers.core.quantity import Resources, add_up, read_resources, write_quantity
from provisioner.embedded.controllers.kinds import POD, SECRET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch

_COUNTED = (POD, SERVICE, CONFIG_MAP, SECRET, VOLUME_CLAIM)
_FINAL_PHASES = ("Succeeded", "Failed")
_ALL = ""


def quota_controller() -> Controller:
    """Keeps `status.hard` and `status.used` of every ResourceQuota."""
    counted = (Watch(kind, keys=_whole_namespace) for kind in (POD, VOLUME_CLAIM, SERVICE))
    return Controller("quotas", (Watch(QUOTA), *counted), _reconcile)


def _whole_namespace(found: Json) -> Iterable[Key]:
    return (Key(found["metadata"]["namespace"], _ALL),)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    quotas = await cluster.api.list(QUOTA, namespace=key.namespace)
    if quotas:
        used = await _measure(cluster.api, key.namespace)
        for found in quotas:
            hard = found["spec"].get("hard") or {}
            shares = {name: write_quantity(used.get(name, Decimal(0))) for name in hard}
            await cluster.api.write_status(QUOTA, found, {"hard": hard, "used": shares})
    return None


async def _measure(api: Api, namespace: str | None) -> Resources:
    parts: list[Resources] = []
    for kind in _COUNTED:
        found = await api.list(kind, namespace=namespace)
        if kind is POD:
            found = [pod for pod in found if (pod.get("status") or {}).get("phase") not in _FINAL_PHASES]
            parts.extend(_asked_by_pod(pod) for pod in found)
        if kind is VOLUME_CLAIM:
            requests = (read_resources((claim["spec"].get("resources") or {}).get("requests")) for claim in found)
            parts.extend({f"requests.{name}": amount for name, amount in each.items()} for each in requests)
        count = Decimal(len(found))
        parts.append({kind.plural: count, f"count/{kind.plural}": count})
    return add_up(parts)


def _asked_by_pod(pod: Json) -> Resources:
    total: list[Resources] = []
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        limits = read_resources(resources.get("limits"))
        requests = {**limits, **read_resources(resources.get("requests"))}
        total.append({f"limits.{name}": amount for name, amount in limits.items()})
        total.append({f"requests.{name}": amount for name, amount in requests.items()})
        total.append({name: requests[name] for name in ("cpu", "memory") if name in requests})
    return add_up(total)
