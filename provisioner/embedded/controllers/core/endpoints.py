"""Endpoints and EndpointSlices of Services: the addresses of the pods that a Service selects, ready ones apart.

The addresses are the pods' made-up ones, as clients of the API expect them; the Gateway's listener goes by the pods'
own annotation instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from provisioner.embedded.controllers.kinds import POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true

_MANAGER = "endpoint-controller"
_SERVICE_NAME = "kubernetes.io/service-name"
_ALL = ""


def endpoints_controller() -> Controller:
    """Keeps both kinds for every Service with a selector."""
    return Controller("endpoints", (Watch(SERVICE), Watch(POD, keys=_whole_namespace)), _reconcile)


def _whole_namespace(found: Json) -> Iterable[Key]:
    return (Key(found["metadata"]["namespace"], _ALL),)


async def _reconcile(cluster: Cluster, key: Key) -> float | None:
    api, namespace = cluster.api, key.namespace
    if key.name == _ALL:
        services = await api.list(SERVICE, namespace=namespace)
    else:
        service = await api.get(SERVICE, key.name, namespace=namespace)
        if service is None:
            await api.delete(ENDPOINTS, key.name, namespace=namespace)
            await api.delete(ENDPOINT_SLICE, key.name, namespace=namespace)
            return None
        services = [service]
    pods = await api.list(POD, namespace=namespace)
    for service in services:
        if service["spec"].get("selector") and "deletionTimestamp" not in service["metadata"]:
            await _write(api, service, [pod for pod in pods if _is_selected(service, pod)])
    return None


async def _write(api: Api, service: Json, pods: Sequence[Json]) -> None:
    metadata = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"]}
    addressed = [pod for pod in pods if (pod.get("status") or {}).get("podIP")]
    ready = [pod for pod in addressed if is_true(pod, "Ready")]
    ports = _ports(service, addressed)
    subset: Json = {"ports": ports} if ports else {}
    for name, part in (("addresses", ready), ("notReadyAddresses", [pod for pod in addressed if pod not in ready])):
        if part:
            subset[name] = [{"ip": pod["status"]["podIP"], **_target(pod)} for pod in part]
    await api.apply(ENDPOINTS, {"metadata": metadata, "subsets": [subset] if addressed else []}, manager=_MANAGER)
    slice_ = {
        "metadata": {**metadata, "labels": {_SERVICE_NAME: metadata["name"]}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [pod["status"]["podIP"]],
                "conditions": {"ready": pod in ready, "serving": pod in ready, "terminating": False},
                **_target(pod),
            }
            for pod in addressed
        ],
        "ports": ports,
    }
    await api.apply(ENDPOINT_SLICE, slice_, manager=_MANAGER)


def _is_selected(service: Json, pod: Json) -> bool:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return service["spec"]["selector"].items() <= labels.items() and "deletionTimestamp" not in metadata and not is_over


def _target(pod: Json) -> Json:
    metadata = pod["metadata"]
    reference = {"kind": "Pod", "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    return {"nodeName": pod["spec"].get("nodeName"), "targetRef": reference}


def _ports(service: Json, pods: Sequence[Json]) -> list[Json]:
    found = []
    for port in service["spec"].get("ports") or ():
        number = port.get("targetPort", port["port"])
        if isinstance(number, str):
            number = next((named for pod in pods for named in _named_ports(pod, number)), None)
        if number is not None:
            entry = {"port": number, "protocol": port.get("protocol", "TCP")}
            found.append(entry | ({"name": port["name"]} if "name" in port else {}))
    return found


def _named_ports(pod: Json, name: str) -> Iterable[int]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name:
                yield port["containerPort"]
