"""Name resolution: policies that cut it off, and names in flags and variables that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.selectors import NAMESPACE_NAME, pod_labels, selector
from provisioner.lint.joins.tenant import objects_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import Policy, denying, has_other_policies, policies
from provisioner.lint.values import Hole, items, look, mapping, text, whole
from provisioner.lint.world import World

_DNS_PORTS = (53, 1053)
_OPENSHIFT_PORT = 5353


def _speaks_of_dns(item: Any) -> bool:
    """Whether a rule names a port that DNS servers use."""
    return any(_is_dns(entry, item) for _, entry in items(item, "ports"))


def _may_reach_dns(policy: Policy, item: Any) -> bool:
    """Whether a rule may reach the cluster's DNS: neither its ports nor its peers are surely others."""
    if (look(item, "ports") or isinstance(look(item, "ports"), Hole)) and not _speaks_of_dns(item):
        return _has_range(item)
    peers = [peer for _, peer in items(item, "to")]
    return not peers or any(_may_be_dns(policy, peer) for peer in peers)


def _has_range(item: Any) -> bool:
    for _, entry in items(item, "ports"):
        start, end = whole(entry, "port"), whole(entry, "endPort")
        if look(entry, "port") is None or (start is not None and end is not None and start <= 53 <= end):
            return True
    return isinstance(look(item, "ports"), Hole)


def _may_be_dns(policy: Policy, peer: Any) -> bool:
    if look(peer, "ipBlock") is not None:
        return True
    space = selector(look(peer, "namespaceSelector"))
    if space is None:
        return policy.namespace in (None, "kube-system") and not look(peer, "podSelector")
    named = space.labels.get(NAMESPACE_NAME, "kube-system")
    return named == "kube-system" or "dns" in named


@lru_cache(maxsize=2)
def _isolated(world: World) -> tuple[tuple[Policy, tuple[Any, ...]], ...]:
    """Denials of egress that leave pods without DNS, each with the rules of all policies of such pods."""
    found: dict[int, tuple[Policy, tuple[Any, ...]]] = {}
    for pod in () if has_other_policies(world) else world.pods:
        denied = denying(world, pod, "egress")
        if not denied or pod.spec.get("hostNetwork") is True:
            continue
        pairs = [(policy, item) for policy in denied for item in policy.allows("egress")]
        reaches = any(_may_reach_dns(policy, item) for policy, item in pairs)
        first = next((policy for policy in denied if not policy.allows("egress")), denied[0])
        if not reaches:
            found.setdefault(id(first), (first, tuple(item for _, item in pairs)))
    return tuple(found.values())


@rule("dns-denied", Severity.ERROR)
def dns_denied(world: World) -> Iterator[Hit]:
    """Pods may reach something outside, but no policy lets them ask for its name.

    Egress is denied by default and no rule allows DNS (port 53, UDP and TCP, to kube-dns in kube-system), so every
    host name fails to resolve, also those of Services.
    """
    for policy, rules in _isolated(world):
        if rules:
            message = "allowing egress: no policy of these pods allows DNS"
            fix = "allow ports 53 UDP and TCP to the pods k8s-app: kube-dns in namespace kube-system"
            yield Hit(at=policy.object, path=_place(policy), message=message, fix=fix)


@rule("egress-denied-altogether", Severity.WARNING)
def egress_denied_altogether(world: World) -> Iterator[Hit]:
    """Pods may reach nothing at all, not even DNS: egress is denied and no policy of theirs allows any.

    That is right for an engine whose weights lie on its volume and which nobody scrapes by name; all others fail at
    the first host name.
    """
    for policy, rules in _isolated(world):
        if not rules:
            message = "allowing egress: no policy of these pods allows any, so not even DNS works"
            fix = "allow ports 53 UDP and TCP to kube-dns in kube-system; silence this if nothing is meant to go out"
            yield Hit(at=policy.object, path=_place(policy), message=message, fix=fix)


def _place(policy: Policy) -> FieldPath:
    return ("spec", "egress") if "egress" in policy.spec else ("spec", "policyTypes")


def _dns_rules(world: World) -> Iterator[tuple[Policy, FieldPath, Any]]:
    for policy in policies(world):
        for _, path, item in policy.rules("egress"):
            if _speaks_of_dns(item):
                yield policy, path, item


@lru_cache(maxsize=2)
def _protocols(world: World) -> dict[tuple[str | None, str], frozenset[str]]:
    """The protocols allowed for DNS by namespace and selector of the policies."""
    found: dict[tuple[str | None, str], frozenset[str]] = {}
    for policy, _, item in _dns_rules(world):
        used = frozenset(
            str(look(entry, "protocol") or "TCP") for _, entry in items(item, "ports") if _is_dns(entry, item)
        )
        key = (policy.namespace, str(policy.selector))
        found[key] = found.get(key, frozenset()) | used
    return found


def _is_dns(entry: Any, item: Any) -> bool:
    """Whether a port of a rule is one that DNS servers use; OpenShift's pods listen on another one."""
    known = whole(entry, "port") in _DNS_PORTS or (text(entry, "port") or "").startswith("dns")
    return known or (whole(entry, "port") == _OPENSHIFT_PORT and "openshift" in repr(look(item, "to")))


@rule("dns-without-udp", Severity.ERROR)
def dns_without_udp(world: World) -> Iterator[Hit]:
    """A policy allows DNS over TCP only; resolvers ask over UDP first, so names do not resolve.

    A port without protocol is TCP.
    """
    yield from _one_protocol(world, "UDP", "names do not resolve")


@rule("dns-without-tcp", Severity.WARNING)
def dns_without_tcp(world: World) -> Iterator[Hit]:
    """A policy allows DNS over UDP only; answers that do not fit a datagram are asked for again over TCP and fail.

    RFC 7766 asks of every resolver that it can use TCP. Headless Services with many replicas and records with many
    addresses are where it shows.
    """
    yield from _one_protocol(world, "TCP", "large answers fail")


def _one_protocol(world: World, wanted: str, effect: str) -> Iterator[Hit]:
    for policy, path, _ in _dns_rules(world):
        used = _protocols(world)[(policy.namespace, str(policy.selector))]
        if wanted not in used and used <= {"UDP", "TCP"}:
            message = f"allowing DNS: {shown(wanted)} is missing, so {effect}"
            fix = f"add {{port: 53, protocol: {wanted}}} to the rule"
            yield Hit(at=policy.object, path=(*path, "ports"), message=message, fix=fix)


@rule("dns-in-own-namespace", Severity.ERROR)
def dns_in_own_namespace(world: World) -> Iterator[Hit]:
    """A policy allows DNS to pods of its own namespace, where no DNS server runs.

    A podSelector without a namespaceSelector looks into the policy's namespace; kube-dns is in kube-system.
    """
    for policy, path, item in _dns_rules(world):
        entries = list(items(item, "to"))
        local = [
            place for place, peer in entries if set(mapping(peer)) == {"podSelector"} and look(peer, "podSelector")
        ]
        own = [pod for pod in world.pods_in(policy.namespace) if _is_dns_server(pod_labels(pod))]
        if local and len(local) == len(entries) and policy.namespace != "kube-system" and not own:
            message = "allowing DNS: podSelector alone means pods of the policy's own namespace"
            fix = f"add namespaceSelector {{matchLabels: {{{NAMESPACE_NAME}: kube-system}}}} to the same item"
            yield Hit(at=policy.object, path=(*path, *local[0]), message=message, fix=fix)


def _is_dns_server(labels: Any) -> bool:
    return any("dns" in str(value) for value in labels.values())


@rule("dns-server-by-wrong-label", Severity.WARNING)
def dns_server_by_wrong_label(world: World) -> Iterator[Hit]:
    """A policy allows DNS to pods with a label that the cluster's DNS servers do not have.

    CoreDNS carries `k8s-app: kube-dns` for historical reasons, whatever its Deployment is called; with
    `app: kube-dns` no pod may resolve a name.
    """
    for policy, path, item in _dns_rules(world):
        for place, peer in items(item, "to"):
            found = selector(look(peer, "podSelector"))
            wrong = found.labels.get("app") if found is not None and "k8s-app" not in found.labels else None
            if wrong not in ("kube-dns", "coredns", "core-dns") or not look(peer, "namespaceSelector"):
                continue
            if not any(True for _ in world.pods_of({"app": wrong}, namespace=None)):
                message = f"allowing DNS: the cluster's DNS servers have no label `app: {wrong}`"
                where = (*path, *place, "podSelector")
                yield Hit(at=policy.object, path=where, message=message, fix="select k8s-app: kube-dns")


@rule("dns-port-of-tenant-missing", Severity.ERROR)
def dns_port_of_tenant_missing(world: World) -> Iterator[Hit]:
    """A policy of a tenant cluster on shared nodes allows DNS on 53 only, but the tenant's CoreDNS listens on 1053.

    The policy is synced to the control plane cluster, where traffic reaches the CoreDNS pod on its own port
    (loft-sh/vcluster#390).
    """
    shared = [tenant for tenant in world.tenants if not tenant.has_private_nodes]
    synced = [tenant for tenant in shared if look(tenant.value, "sync", "toHost", "networkPolicies", "enabled") is True]
    others = _with_tenant_port(world)
    for policy, path, item in _dns_rules(world) if synced and len(shared) == len(world.tenants) else ():
        numbers = {whole(entry, "port") for _, entry in items(item, "ports")}
        if 53 in numbers and 1053 not in numbers and (policy.namespace, str(policy.selector)) not in others:
            message = "allowing DNS: the tenant cluster's DNS listens on 1053 on shared nodes, the rule has 53 only"
            fix = "add port 1053 for UDP and TCP"
            yield Hit(at=policy.object, path=(*path, "ports"), message=message, fix=fix)


_TENANT_LABEL = "vcluster-kube-dns"
"""`k8s-app` of the CoreDNS that vCluster puts into a tenant cluster."""


def _may_be_tenant_dns(peer: Any) -> bool:
    """Whether a peer may be a tenant cluster's DNS: nothing but `k8s-app: kube-dns` surely is not."""
    found = selector(look(peer, "podSelector"))
    if found is None or not found.is_certain:
        return True
    listed = [values for key, operator, values in found.expressions if (key, operator) == ("k8s-app", "In")]
    names = {found.labels.get("k8s-app"), *(value for values in listed for value in values)} - {None}
    return not names or _TENANT_LABEL in names or "kube-dns" not in names


@rule("dns-server-of-tenant-missed", Severity.WARNING)
def dns_server_of_tenant_missed(world: World) -> Iterator[Hit]:
    """A policy inside of a tenant cluster allows DNS to pods that are not there.

    The CoreDNS that vCluster deploys has the label `k8s-app: vcluster-kube-dns`, and its pods listen on 1053 behind
    port 53 of their Service. With `k8s-app: kube-dns` no pod of the tenant cluster resolves a name.
    """
    inside = {id(found) for tenant in world.tenants for found in objects_of(world, tenant)}
    for policy, path, item in _dns_rules(world) if inside else ():
        peers = [peer for _, peer in items(item, "to")]
        if id(policy.object) in inside and peers and not any(_may_be_tenant_dns(peer) for peer in peers):
            message = f"allowing DNS: the tenant cluster's own is called `{_TENANT_LABEL}`, listening on 1053"
            fix = f"select k8s-app In [kube-dns, {_TENANT_LABEL}], and allow ports 53 and 1053"
            yield Hit(at=policy.object, path=(*path, "to"), message=message, fix=fix)


@lru_cache(maxsize=2)
def _with_tenant_port(world: World) -> frozenset[tuple[str | None, str]]:
    """Namespace and selector of the policies that have the tenant's port."""
    return frozenset(
        (policy.namespace, str(policy.selector))
        for policy, _, item in _dns_rules(world)
        if any(whole(entry, "port") == 1053 for _, entry in items(item, "ports"))
    )


@rule("dns-policy-without-servers", Severity.ERROR)
def dns_policy_without_servers(world: World) -> Iterator[Hit]:
    """A pod has dnsPolicy None but names no server, which the API server refuses.

    None means that nothing of the cluster's or node's settings is used, so the pod must bring its own.
    """
    for pod in world.pods:
        if pod.spec.get("dnsPolicy") == "None" and not look(pod.spec, "dnsConfig", "nameservers"):
            message = "resolving names: dnsPolicy `None` needs dnsConfig.nameservers"
            yield Hit(
                at=pod.owner, path=pod.at("dnsPolicy"), message=message, fix="name a server, or leave dnsPolicy out"
            )


@rule("dns-of-node-in-host-network", Severity.WARNING)
def dns_of_node_in_host_network(world: World) -> Iterator[Hit]:
    """A pod on its node's network resolves names as the node does, so it does not find Services by name.

    Multi-node engines that meet by the leader's name need `dnsPolicy: ClusterFirstWithHostNet`.
    """
    for pod in world.pods:
        policy = look(pod.spec, "dnsPolicy")
        if pod.spec.get("hostNetwork") is True and policy in (None, "ClusterFirst") and pod.owner.kind != "DaemonSet":
            message = "resolving names: with hostNetwork the cluster's names are not found"
            fix = "set dnsPolicy: ClusterFirstWithHostNet"
            yield Hit(at=pod.owner, path=pod.at("hostNetwork"), message=message, fix=fix)
