"""Protocols in network policies, and names in those of Cilium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import covers, policies
from provisioner.lint.values import items, look
from provisioner.lint.world import Object, World, same_namespace

_HTTPS = 443
_CILIUM = ("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy")


@rule("network-https-over-udp", Severity.ERROR)
def network_https_over_udp(world: World) -> Iterator[Hit]:
    """A policy lets pods out to port 443 over UDP only.

    HTTPS runs over TCP: downloads of models and calls of other APIs hang until they time out. QUIC may use UDP beside
    it, never alone. Said where no policy of the namespace allows port 443 over TCP.
    """
    for policy in policies(world):
        for _, path, one in policy.rules("egress"):
            if covers(one, _HTTPS, "TCP") or not covers(one, _HTTPS, "UDP"):
                continue
            others = (other for other in policies(world) if same_namespace(other.namespace, policy.namespace))
            allowed = (rule for other in others for rule in other.allows("egress"))
            if not any(covers(rule, _HTTPS, "TCP") for rule in allowed):
                message = f"allowing port: HTTPS runs over TCP, allowed is `UDP` {_HTTPS}"
                yield Hit(at=policy.object, path=(*path, "ports"), message=message, fix="write protocol: TCP")


def _rules(found: Object) -> Iterator[Any]:
    for spec in (look(found.value, "spec"), *(item for _, item in items(found.value, "specs"))):
        yield from (item for _, item in items(spec, "egress"))


def _sees_names(found: Object) -> bool:
    """Whether a policy lets Cilium's DNS proxy see what names are asked for."""
    ports = (port for rule in _rules(found) for _, port in items(rule, "toPorts"))
    return any(look(port, "rules", "dns") is not None for port in ports)


@rule("cilium-names-not-seen", Severity.WARNING)
def cilium_names_not_seen(world: World) -> Iterator[Hit]:
    """A Cilium policy allows hosts by name, and no policy lets Cilium see the names that pods look up.

    `toFQDNs` knows only addresses that Cilium's DNS proxy has seen. A rule to the name server with
    `rules: {dns: [{matchPattern: "*"}]}` sends the questions through the proxy; without one, nothing is let out.
    """
    found = tuple(world.of_kind(*_CILIUM))
    if any(_sees_names(policy) for policy in found):
        return
    for policy in found:
        for path, one in items(policy.value, "spec", "egress"):
            named = (look(item, "matchName") or look(item, "matchPattern") for _, item in items(one, "toFQDNs"))
            name = next(named, None)
            if isinstance(name, str):
                message = f"allowing hosts: no policy lets Cilium see who looks up `{name}`"
                fix = 'add `rules: {dns: [{matchPattern: "*"}]}` to the rule that allows port 53'
                yield Hit(at=policy, path=(*path, "toFQDNs"), message=message, fix=fix)
