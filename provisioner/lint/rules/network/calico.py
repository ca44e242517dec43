"""Policies of Calico: selectors that it cannot read, ports without a protocol, name resolution.

Source: Calico's reference of NetworkPolicy and GlobalNetworkPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World

_GROUPS = ("projectcalico.org", "crd.projectcalico.org")
_KINDS = ("NetworkPolicy", "GlobalNetworkPolicy", "GlobalNetworkSet", "NetworkSet")
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_ASSIGNS = re.compile(r"(?<![=!])=(?!=)")
_PLAIN = re.compile(r"^\s*([\w./-]+)\s*==\s*(?:\"([^\"]*)\"|'([^']*)')\s*$")
_DNS = (53, "53", "dns")


def _policies(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("NetworkPolicy", "GlobalNetworkPolicy") if found.group in _GROUPS)


def _rules(found: Object, *directions: str) -> Iterator[tuple[FieldPath, Any]]:
    for direction in directions or ("ingress", "egress"):
        yield from items(found.value, "spec", direction)


def _selectors(found: Object) -> Iterator[tuple[FieldPath, str]]:
    places: list[tuple[FieldPath, Any]] = [(("spec",), look(found.value, "spec"))]
    places += [((*path, side), look(one, side)) for path, one in _rules(found) for side in ("source", "destination")]
    for path, value in places:
        for name in ("selector", "namespaceSelector", "notSelector", "serviceAccountSelector"):
            written = text(value, name)
            if written and not has_hole(written):
                yield (*path, name), written


def _fault(written: str) -> str | None:
    bare = _STRINGS.sub("s", written)
    if "'" in bare or '"' in bare:
        return "a quote is not closed"
    if _ASSIGNS.search(bare):
        return "labels are compared by `==`"
    if any(bare.count(one) != bare.count(other) for one, other in ("()", "{}")):
        return "a bracket is not closed"
    return None


@rule("calico-selector-malformed", Severity.ERROR)
def calico_selector_malformed(world: World) -> Iterator[Hit]:
    """A selector in a policy of Calico is none.

    It is written `app == "chat" && has(tier)`. Calico refuses the policy, and what it was to deny stays open.
    """
    for found in _policies(world):
        for path, written in _selectors(found):
            fault = _fault(written)
            if fault is not None:
                message = f"selecting by `{written}`: {fault}"
                yield Hit(at=found, path=path, message=message, fix='write key == "value"')


@rule("calico-ports-without-protocol", Severity.ERROR)
def calico_ports_without_protocol(world: World) -> Iterator[Hit]:
    """A rule of a Calico policy names ports and no protocol.

    Calico refuses it: `rules that specify ports must set protocol to TCP or UDP or SCTP`.
    """
    for found in _policies(world):
        for path, one in _rules(found):
            for side in ("source", "destination"):
                if look(one, side, "ports") and look(one, "protocol") is None:
                    message = f"allowing ports: the rule has no protocol: `{found.name}`"
                    yield Hit(at=found, path=(*path, side, "ports"), message=message, fix="add protocol: TCP")


@rule("calico-dns-without-udp", Severity.ERROR)
def calico_dns_without_udp(world: World) -> Iterator[Hit]:
    """Policies of Calico let pods ask name servers over TCP only.

    Resolvers ask over UDP first, and fall back to TCP for long answers only: names do not resolve.
    """
    asked = [(found, path, one) for found in _policies(world) for path, one in _rules(found, "egress") if _is_dns(one)]
    if asked and all(str(look(one, "protocol")).upper() == "TCP" for _, _, one in asked):
        for found, path, _ in asked[:1]:
            message = "allowing DNS: `UDP` is missing, so names do not resolve"
            yield Hit(at=found, path=(*path, "protocol"), message=message, fix="add a rule for UDP")


def _is_dns(one: Any) -> bool:
    ports = [port for _, port in items(one, "destination", "ports")]
    return look(one, "action") == "Allow" and any(port in _DNS for port in ports if isinstance(port, int | str))


@rule("calico-selects-nothing", Severity.ERROR)
def calico_selects_nothing(world: World) -> Iterator[Hit]:
    """A Calico NetworkPolicy selects no pod of its namespace, though the folder shows pods there.

    It has no effect: what it was to allow stays denied, or the other way round.
    """
    for found in _policies(world):
        chosen = _PLAIN.match(text(found.value, "spec", "selector") or "")
        if chosen is None or found.namespace is None or found.kind != "NetworkPolicy":
            continue
        labels = {chosen[1]: chosen[2] if chosen[2] is not None else chosen[3]}
        pods = [pod for pod in world.pods_in(found.namespace) if pod.namespace is not None]
        is_near = any(chosen[1] in mapping(pod.value, "metadata", "labels") for pod in pods)
        if is_near and next(world.pods_of(labels, namespace=found.namespace), None) is None:
            message = f"selecting pods: no pod has this label: `{chosen[0].strip()}`"
            yield Hit(at=found, path=("spec", "selector"), message=message, fix="correct the selector")
