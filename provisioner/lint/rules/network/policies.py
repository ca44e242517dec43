"""What a NetworkPolicy says and what the API server makes of it, looked at by itself.

`pods` joins policies with pods, `dns` looks at name resolution. Sources: the Kubernetes API reference of
`networking.k8s.io/v1` and its validation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import Peer, Policy, policies
from provisioner.lint.values import Hole, has_hole, items, look, mapping, text, whole
from provisioner.lint.world import World

_METADATA = ipaddress.ip_address("169.254.169.254")
_METADATA_NETWORK = ipaddress.ip_network("169.254.169.254/32")
_PRIVATE = tuple(ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


@rule("network-peer-empty", Severity.ERROR)
def network_peer_empty(world: World) -> Iterator[Hit]:
    """A `from` or `to` has an empty item, which the API server refuses: `must specify a peer`.

    An empty item is often what is left when a selector was commented out.
    """
    for peer in _all_peers(world):
        if isinstance(peer.value, Mapping) and not any(look(peer.value, key) is not None for key in peer.value):
            message = "choosing peer: the item is empty"
            fix = "name a podSelector, a namespaceSelector or an ipBlock; leave `from` out to mean everybody"
            yield Hit(at=peer.policy.object, path=peer.path, message=message, fix=fix)


def _all_peers(world: World) -> Iterator[Peer]:
    for policy in policies(world):
        yield from policy.peers


@rule("network-peer-of-two-kinds", Severity.ERROR)
def network_peer_of_two_kinds(world: World) -> Iterator[Hit]:
    """A peer has an ipBlock together with a selector, which the API server refuses.

    An address range is outside the cluster's labels, so the two cannot be combined; the answer is `may not specify
    both ipBlock and another peer`.
    """
    for peer in _all_peers(world):
        if look(peer.value, "ipBlock") is not None and set(mapping(peer.value)) & {"podSelector", "namespaceSelector"}:
            message = "choosing peer: ipBlock cannot stand beside a selector"
            yield Hit(at=peer.policy.object, path=peer.path, message=message, fix="make two items of it")


@rule("network-list-empty", Severity.ERROR)
def network_list_empty(world: World) -> Iterator[Hit]:
    """A rule has an empty list of peers, which allows everybody and not nobody.

    `from: []` and `to: []` mean the same as leaving them out. To allow nobody, leave the whole rule out: a policy that
    selects the pods and has no rule for the direction denies it.
    """
    for policy in policies(world):
        for direction, path, item in policy.rules():
            field = "from" if direction == "ingress" else "to"
            if field in mapping(item) and look(item, field) in ([], None):
                message = f"choosing peers: `{field}: []` allows everybody"
                fix = "leave the rule out to allow nobody, or name the peers"
                yield Hit(at=policy.object, path=(*path, field), message=message, fix=fix)


def _open_rules(world: World) -> Iterator[tuple[Policy, str, FieldPath]]:
    """Rules without peers and ports: everything from or to everywhere."""
    for policy in policies(world):
        for direction, path, item in policy.rules():
            if isinstance(item, Mapping) and not any(item.get(key) for key in ("from", "to", "ports")) and not item:
                yield policy, direction, path


def _means_to_deny(policy: Policy) -> bool:
    return any(word in policy.object.name for word in ("deny", "isolat", "block", "restrict"))


@rule("default-deny-allows", Severity.ERROR)
def default_deny_allows(world: World) -> Iterator[Hit]:
    """A policy that is named like a denial has an empty rule, which allows everything.

    `ingress: [{}]` allows all; `ingress: []`, or no `ingress` with the type in policyTypes, denies all.
    """
    for policy, direction, path in _open_rules(world):
        if _means_to_deny(policy):
            message = f"denying traffic: an empty {direction} rule allows everything"
            fix = f"remove the rule and keep {direction.capitalize()} in policyTypes"
            yield Hit(at=policy.object, path=path, message=message, fix=fix)


@rule("network-policy-allows-everything", Severity.WARNING)
def network_policy_allows_everything(world: World) -> Iterator[Hit]:
    """A policy has an empty rule, which allows everything in that direction and overrides every denial beside it.

    Policies are added up, so one open rule undoes every other policy for the pods it selects. It is right only
    where a default is opened on purpose, for instance in a namespace of its own.
    """
    for policy, direction, path in _open_rules(world):
        if not _means_to_deny(policy):
            message = f"allowing traffic: an empty {direction} rule allows everything"
            yield Hit(at=policy.object, path=path, message=message, fix="name peers and ports")


@rule("network-peer-every-namespace", Severity.WARNING)
def network_peer_every_namespace(world: World) -> Iterator[Hit]:
    """A rule lets in every pod of every namespace: its namespaceSelector is empty and no podSelector narrows it.

    On a cluster that tenants share, that is every other tenant.
    """
    for peer in _all_peers(world):
        spaces, pods = look(peer.value, "namespaceSelector"), look(peer.value, "podSelector")
        if peer.direction == "ingress" and spaces == {} and pods in (None, {}):
            message = "choosing peer: an empty namespaceSelector means every namespace"
            fix = "select namespaces by kubernetes.io/metadata.name, or leave namespaceSelector out for the own one"
            yield Hit(at=peer.policy.object, path=(*peer.path, "namespaceSelector"), message=message, fix=fix)


def _blocks(world: World) -> Iterator[tuple[Peer, Any, list[Any]]]:
    for peer in _all_peers(world):
        network = _network(look(peer.value, "ipBlock", "cidr"))
        if network is not None:
            holes = [_network(item) for _, item in items(peer.value, "ipBlock", "except")]
            yield peer, network, holes


def _network(value: Any) -> Any:
    return _parsed(value) if isinstance(value, str) else None


@lru_cache(maxsize=4096)
def _parsed(value: str) -> Any:
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None


@rule("network-address-malformed", Severity.ERROR)
def network_address_malformed(world: World) -> Iterator[Hit]:
    """An ipBlock has a cidr or an exception that is no network address with a prefix length; it is refused.

    A single address needs a prefix length as well: /32, or /128 for IPv6. Names are not possible.
    """
    for peer in _all_peers(world):
        cidr: tuple[FieldPath, Any] = (("ipBlock", "cidr"), look(peer.value, "ipBlock", "cidr"))
        for path, item in (cidr, *items(peer.value, "ipBlock", "except")):
            if not isinstance(item, str) or has_hole(item):
                continue
            if _network(item) is None or "/" not in item:
                message = f"reading address: not a network with a prefix length: {shown(item)}"
                yield Hit(
                    at=peer.policy.object, path=(*peer.path, *path), message=message, fix="write it as 10.0.0.0/8"
                )


@rule("network-address-with-host-bits", Severity.WARNING)
def network_address_with_host_bits(world: World) -> Iterator[Hit]:
    """A range is written as an address inside of it, so it allows more than it seems to.

    `10.0.0.5/16` is all of 10.0.0.0/16; whoever meant one address writes /32. The API server only warns.
    """
    for peer, network, holes in _blocks(world):
        places: list[tuple[FieldPath, Any]] = [(("ipBlock", "cidr"), network)]
        places += [(("ipBlock", "except", index), hole) for index, hole in enumerate(holes) if hole is not None]
        for place, one in places:
            written = str(look(peer.value, *place)).partition("/")[0]
            if ipaddress.ip_address(written) != one.network_address:
                message = f"reading address: {shown(f'{written}/{one.prefixlen}')} means all of {one}"
                fix = f"write {one}, or {written}/{one.max_prefixlen} for the one address"
                yield Hit(at=peer.policy.object, path=(*peer.path, *place), message=message, fix=fix)


@rule("network-exception-outside", Severity.ERROR)
def network_exception_outside(world: World) -> Iterator[Hit]:
    """An exception of an ipBlock is not inside its cidr (or is all of it), which the API server refuses.

    Answer of the API server: `must be a strict subset of cidr`. The mistake hides that the rule allowed more, or
    less, than meant.
    """
    for peer, network, holes in _blocks(world):
        for index, hole in enumerate(holes):
            if hole is None:
                continue
            if hole.version != network.version or not hole.subnet_of(network) or hole == network:
                message = f"excepting addresses: {shown(str(hole))} is not a part of {network}"
                path = (*peer.path, "ipBlock", "except", index)
                yield Hit(
                    at=peer.policy.object, path=path, message=message, fix="except a smaller network inside the cidr"
                )


def _covers(holes: list[Any], wanted: Any) -> bool:
    return any(hole is not None and hole.version == 4 and wanted.subnet_of(hole) for hole in holes)


@rule("metadata-service-reachable", Severity.WARNING)
def metadata_service_reachable(world: World) -> Iterator[Hit]:
    """An egress rule to any address includes the cloud's metadata service at 169.254.169.254.

    Whoever makes a model server fetch a URL (images of a multimodal prompt, adapters) gets the node's credentials from
    there. Except the link-local network.
    """
    for peer, network, holes in _blocks(world):
        is_wide = network.version == 4 and _METADATA in network and network.prefixlen < 16
        if peer.direction == "egress" and is_wide and not _covers(holes, _METADATA_NETWORK):
            message = f"allowing egress: it includes the metadata service 169.254.169.254: {shown(str(network))}"
            fix = "add 169.254.0.0/16 (and the private ranges) to ipBlock.except"
            yield Hit(at=peer.policy.object, path=(*peer.path, "ipBlock"), message=message, fix=fix)


@rule("private-ranges-reachable", Severity.INFO)
def private_ranges_reachable(world: World) -> Iterator[Hit]:
    """An egress rule to any address includes the private ranges: other tenants' pods, nodes and the API server.

    A rule that means the internet excepts 10.0.0.0/8, 172.16.0.0/12 and 192.168.0.0/16.
    """
    for peer, network, holes in _blocks(world):
        if peer.direction == "egress" and network.version == 4 and network.prefixlen == 0:
            missing = [str(private) for private in _PRIVATE if not _covers(holes, private)]
            if missing and _covers(holes, _METADATA_NETWORK):
                message = f"allowing egress: any address includes {', '.join(missing)}"
                fix = "add them to ipBlock.except, and allow what is meant inside by selectors"
                yield Hit(at=peer.policy.object, path=(*peer.path, "ipBlock"), message=message, fix=fix)


@rule("network-ingress-from-anywhere", Severity.WARNING)
def network_ingress_from_anywhere(world: World) -> Iterator[Hit]:
    """An ingress rule allows every address (0.0.0.0/0 or ::/0) without exceptions, which is everybody.

    It allows the node network, other tenants and, through load balancers that keep addresses, the internet. Pods of
    the cluster are chosen better by selectors.
    """
    for peer, network, holes in _blocks(world):
        if peer.direction == "ingress" and network.prefixlen == 0 and not holes:
            message = f"allowing ingress: {shown(str(network))} is everybody"
            fix = "name the ranges of the load balancer or the gateway's pods"
            yield Hit(at=peer.policy.object, path=(*peer.path, "ipBlock"), message=message, fix=fix)


@rule("network-rules-without-type", Severity.ERROR)
def network_rules_without_type(world: World) -> Iterator[Hit]:
    """A policy has rules for a direction that its policyTypes do not name; such rules have no effect.

    With `policyTypes: [Egress]` ingress stays as open as before, whatever `ingress` says, and the other way round.
    """
    for policy in policies(world):
        if policy.types is None:
            continue
        for direction, name in (("ingress", "Ingress"), ("egress", "Egress")):
            if direction in policy.spec and name not in policy.types:
                message = f"reading policy: {direction} rules without {shown(name)} in policyTypes have no effect"
                yield Hit(at=policy.object, path=("spec", direction), message=message, fix=f"add {name} to policyTypes")


@rule("network-egress-not-denied", Severity.ERROR)
def network_egress_not_denied(world: World) -> Iterator[Hit]:
    """A policy that means to deny egress does not: without policyTypes an empty or missing `egress` denies nothing.

    The API server adds Egress to policyTypes only when there is at least one egress rule.
    """
    for policy in policies(world):
        spec = policy.spec
        empty = "egress" in spec and spec["egress"] in ([], None)
        named = "egress" in policy.object.name and "deny" in policy.object.name and "egress" not in spec
        whole_denial = policy.object.name in ("deny-all", "default-deny-all") and "egress" not in spec
        if (policy.types is None and (empty or named or whole_denial)) or (policy.types == ("Ingress",) and named):
            message = "denying egress: policyTypes does not name Egress, so egress stays open"
            yield Hit(at=policy.object, path=("spec",), message=message, fix="set policyTypes: [Ingress, Egress]")


@rule("network-ingress-denied-unmeant", Severity.WARNING)
def network_ingress_denied_unmeant(world: World) -> Iterator[Hit]:
    """A policy with egress rules only has no policyTypes, so it also denies all ingress to its pods.

    Ingress is always a type of a policy that does not name its types.
    """
    for policy in policies(world):
        has_egress = isinstance(policy.spec.get("egress"), list) and bool(policy.spec["egress"])
        if policy.types is None and has_egress and "ingress" not in policy.spec:
            message = "reading policy: without policyTypes it denies all ingress too"
            yield Hit(at=policy.object, path=("spec",), message=message, fix="set policyTypes: [Egress]")


@rule("network-port-range-reversed", Severity.ERROR)
def network_port_range_reversed(world: World) -> Iterator[Hit]:
    """A policy's endPort is below its port, or stands beside a named port or none; the API server refuses it.

    A range needs a number to start from: `endPort` with a named port is refused, as is one below `port`.
    """
    for policy in policies(world):
        for _, path, item in policy.rules():
            for place, port in items(item, "ports"):
                end, start = whole(port, "endPort"), look(port, "port")
                if end is not None and not isinstance(start, Hole) and (not isinstance(start, int) or end < start):
                    message = f"reading ports: endPort {end} does not follow port {shown(str(start))}"
                    fix = "set endPort to the last port of the range and port to its first number"
                    yield Hit(at=policy.object, path=(*path, *place, "endPort"), message=message, fix=fix)


@rule("network-peers-or-instead-of-and", Severity.WARNING)
def network_peers_or_instead_of_and(world: World) -> Iterator[Hit]:
    """A namespaceSelector and a podSelector stand in two list items, which means either and not both.

    The first item allows every pod of those namespaces, the second pods of the policy's own namespace. One item with
    both selectors allows such pods in such namespaces.
    """
    for policy in policies(world):
        for direction, path, item in policy.rules():
            field = "from" if direction == "ingress" else "to"
            entries = [value for _, value in items(item, field)]
            for index, (one, other) in enumerate(pairwise(entries)):
                if _is_split(one, other) and not policy.has_own_pods(world, look(other, "podSelector")):
                    message = "choosing peers: two items mean namespace or pods, not pods in that namespace"
                    fix = "put podSelector into the item above, without a dash of its own"
                    yield Hit(at=policy.object, path=(*path, field, index + 1), message=message, fix=fix)


def _is_split(one: Any, other: Any) -> bool:
    return (
        isinstance(one, Mapping)
        and isinstance(other, Mapping)
        and set(one) == {"namespaceSelector"}
        and set(other) == {"podSelector"}
        and bool(other["podSelector"])
        and bool(one["namespaceSelector"])
        and text(other, "podSelector") is None
    )
