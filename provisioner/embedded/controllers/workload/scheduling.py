"""Which node a pod runs on, by what the node has left, its labels and its taints, and the controller that binds.

One reading of the cluster places all pods that wait, so that two pods never get the same GPU. Pods of a node that is
gone are removed, as a cloud's garbage collector does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Api, Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, write_conditions
from provisioner.embedded.controllers.core.quantity import Resources, add_up, read_resources
from provisioner.embedded.controllers.kinds import NODE, POD
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch, is_true
from provisioner.embedded.controllers.workload.pods import is_final, is_terminating

_EVERYTHING = (Key(None, "all"),)
_ONE_POD: Resources = {"pods": Decimal(1)}


def requests_of(pod: Json) -> Resources:
    """What a pod asks for: the sum over its containers, and the pod itself; a limit counts where no request is."""
    resources = [container.get("resources") or {} for container in pod["spec"].get("containers") or ()]
    wanted = [{**(entry.get("limits") or {}), **(entry.get("requests") or {})} for entry in resources]
    return add_up([_ONE_POD, *map(read_resources, wanted)])


def why_not(pod: Json, node: Json, used: Resources) -> str | None:
    """What keeps a pod from a node of which `used` is taken, in the real scheduler's words; None when it fits."""
    if spec_of(node).get("unschedulable"):
        return "node(s) were unschedulable"
    if not is_true(node, "Ready"):
        return "node(s) were not ready"
    if not _is_selected(pod["spec"], node["metadata"].get("labels") or {}):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = _untolerated(pod["spec"].get("tolerations") or (), spec_of(node).get("taints") or ())
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    free = read_resources((node.get("status") or {}).get("allocatable"))
    for name, wanted in requests_of(pod).items():
        if name == "pods" and name not in free:
            continue  # a node that does not say how many pods it takes
        if wanted > free.get(name, Decimal(0)) - used.get(name, Decimal(0)):
            return f"Insufficient {name}"
    return None


def choose_node(pod: Json, nodes: Sequence[Json], used: Mapping[str, Resources]) -> tuple[str | None, str]:
    """The first node by name that a pod fits on, or None, with the reasons of all nodes as a message."""
    reasons: Counter[str] = Counter()
    for node in sorted(nodes, key=lambda found: str(found["metadata"]["name"])):
        name = str(node["metadata"]["name"])
        reason = why_not(pod, node, used.get(name, {}))
        if reason is None:
            return name, ""
        reasons[reason] += 1
    details = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available" + (f": {details}." if details else ".")


def without_room(pods: Iterable[Json], nodes: Sequence[Json]) -> list[Json]:
    """The pods that wait and that none of the nodes has room for, once all others are placed."""
    used: dict[str, Resources] = {}
    waiting: list[Json] = []
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name is None and not is_terminating(pod):
            waiting.append(pod)
        elif name is not None and not is_final(pod):
            used[name] = add_up([used.get(name, {}), requests_of(pod)])
    left = []
    for pod in waiting:
        name, _ = choose_node(pod, nodes, used)
        if name is None:
            left.append(pod)
        else:
            used[name] = add_up([used.get(name, {}), requests_of(pod)])
    return left


def scheduler(*, clock: Clock) -> Controller:
    """The controller that binds pods to nodes, for every tenant cluster."""
    watches = (Watch(POD, keys=_everything), Watch(NODE, keys=_everything))
    return Controller("scheduler", watches, _Scheduler(clock).reconcile)


def _everything(_: Json) -> Iterable[Key]:
    return _EVERYTHING


@dataclass(frozen=True, slots=True)
class _Scheduler:
    clock: Clock

    async def reconcile(self, cluster: Cluster, _: Key) -> float | None:
        pods = [pod for pod in await cluster.api.list(POD) if not is_final(pod)]
        nodes = await cluster.api.list(NODE)
        names = {node["metadata"]["name"] for node in nodes}
        bound: dict[str, list[Resources]] = {}
        waiting: list[Json] = []
        for pod in pods:
            node_name = pod["spec"].get("nodeName")
            if node_name is None:
                waiting.append(pod)
            elif node_name in names:
                bound.setdefault(node_name, []).append(requests_of(pod))
            else:
                await _remove(cluster.api, pod)
        used = {name: add_up(parts) for name, parts in bound.items()}
        for pod in sorted(waiting, key=lambda found: str(found["metadata"]["creationTimestamp"])):
            if not is_terminating(pod):
                await self._place(cluster.api, pod, nodes, used)
        return None

    async def _place(self, api: Api, pod: Json, nodes: Sequence[Json], used: dict[str, Resources]) -> None:
        metadata = pod["metadata"]
        name, message = choose_node(pod, nodes, used)
        if name is None:
            unschedulable = Condition("PodScheduled", met=False, reason="Unschedulable", message=message)
            await write_conditions(api, POD, pod, (unschedulable,), now=self.clock.now(), phase="Pending")
            return
        used[name] = add_up([used.get(name, {}), requests_of(pod)])
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": name},
        }
        await api.create(POD, binding, subresource="binding")  # the kubelet writes the rest of the status


async def _remove(api: Api, pod: Json) -> None:
    metadata = pod["metadata"]
    await api.delete(POD, metadata["name"], namespace=metadata["namespace"], grace_seconds=0)


def _is_selected(spec: Json, labels: Mapping[str, str]) -> bool:
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    terms = affinity.get("nodeSelectorTerms") or ()
    return any(all(_meets(entry, labels) for entry in term.get("matchExpressions") or ()) for term in terms)


def _meets(entry: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(entry["key"])
    values: list[str] = entry.get("values") or []
    match entry["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case _:  # Lt
            return value is not None and value.isdigit() and int(value) < int(values[0])


def _untolerated(tolerations: Sequence[Json], taints: Sequence[Json]) -> Json | None:
    for taint in taints:
        if taint.get("effect") == "PreferNoSchedule":
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
