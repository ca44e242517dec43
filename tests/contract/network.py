"""A small simulator of NetworkPolicy: whether a connection gets through what is rendered, for tests.

It knows what the API promises: a pod that a policy selects for a direction is closed in it but for what some policy
allows; both ends must allow. Pods are in namespaces, or addresses outside the cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, or an address outside when `namespace` is empty."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    address: str = "10.64.0.9"


def outside(address: str) -> Peer:
    """An address outside the cluster."""
    return Peer(address=address)


@dataclass(frozen=True)
class Network:
    """The policies of a cluster and the labels of its namespaces."""

    policies: tuple[Object, ...]
    namespaces: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Network:
        """The network of a set of manifests; namespaces carry their name as Kubernetes labels them."""
        found = list(objects)
        labels = {o["metadata"]["name"]: o["metadata"].get("labels", {}) for o in found if o["kind"] == "Namespace"}
        return cls(tuple(o for o in found if o["kind"] == "NetworkPolicy"), labels)

    def lets(self, source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
        """Whether a connection from source to a port of target is let through at both ends."""
        out = self._open(source, "Egress", "to", target, port, protocol)
        return out and self._open(target, "Ingress", "from", source, port, protocol)

    def _open(self, pod: Peer, direction: str, key: str, other: Peer, port: int, protocol: str) -> bool:
        if not pod.namespace:
            return True
        bound = [
            policy["spec"]
            for policy in self.policies
            if policy["metadata"]["namespace"] == pod.namespace
            and direction in policy["spec"]["policyTypes"]
            and matches(policy["spec"]["podSelector"], pod.labels)
        ]
        if not bound:
            return True
        rules = [rule for spec in bound for rule in spec.get(direction.lower(), ())]
        return any(
            self._names(rule.get(key), other, pod.namespace) and _has_port(rule.get("ports"), port, protocol)
            for rule in rules
        )

    def _names(self, peers: Iterable[Object] | None, other: Peer, namespace: str) -> bool:
        return peers is None or any(self._is(peer, other, namespace) for peer in peers)

    def _is(self, peer: Object, other: Peer, namespace: str) -> bool:
        if "ipBlock" in peer:
            block, address = peer["ipBlock"], ipaddress.ip_address(other.address)
            holes = (ipaddress.ip_network(hole) for hole in block.get("except", ()))
            inside = address in ipaddress.ip_network(block["cidr"]) and not any(address in hole for hole in holes)
            return inside and not other.namespace
        if not other.namespace:
            return False
        labels = {"kubernetes.io/metadata.name": other.namespace, **self.namespaces.get(other.namespace, {})}
        in_namespace = (
            matches(peer["namespaceSelector"], labels)
            if "namespaceSelector" in peer
            else (other.namespace == namespace)
        )
        return in_namespace and matches(peer.get("podSelector", {}), other.labels)


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels; an empty one selects everything."""
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(
        _holds(term, labels.get(term["key"])) for term in selector.get("matchExpressions", ())
    )


def _holds(term: Object, value: str | None) -> bool:
    if term["operator"] in ("Exists", "DoesNotExist"):
        return (value is not None) is (term["operator"] == "Exists")
    return (value in term["values"]) is (term["operator"] == "In")


def _has_port(ports: Iterable[Object] | None, port: int, protocol: str) -> bool:
    return ports is None or any(
        allowed.get("protocol", "TCP") == protocol and allowed.get("port", port) == port for allowed in ports
    )


def around_workloads(values: Object, namespaces: Iterable[str]) -> list[Object]:
    """What vCluster's chart (0.36) puts around all pods of a tenant cluster on shared nodes, of which `values` are
    `policies.networkPolicy.workload`. In truth they are all in one namespace of the control plane cluster."""
    inside = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in namespaces]
    public = {"enabled": True, "cidr": "0.0.0.0/0", "except": list(_PRIVATE), **values.get("publicEgress", {})}
    block = {"ipBlock": {"cidr": public["cidr"], "except": public["except"]}}
    out = [{"to": inside}, *([{"to": [block]}] if public["enabled"] else []), *values.get("egress", [])]
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "egress": out,
        "ingress": [{"from": inside}, *values.get("ingress", [])],
    }
    return [
        {"kind": "NetworkPolicy", "metadata": {"name": "vc-work", "namespace": name}, "spec": spec}
        for name in namespaces
    ]


_PRIVATE = ("100.64.0.0/10", "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
