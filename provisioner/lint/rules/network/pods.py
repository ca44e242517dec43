"""NetworkPolicies against the pods, Services and namespaces of the folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import declares, mentions, neighbours, others_make_pods, ports
from provisioner.lint.joins.selectors import (
    NAMESPACE_NAME,
    Selector,
    namespace_matches,
    near_misses,
    nothing_selected,
    selected,
    selected_anywhere,
    selected_namespaces,
    selector,
)
from provisioner.lint.joins.services import services_of
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import (
    Peer,
    Policy,
    covers,
    denying,
    has_other_policies,
    policies,
    policies_of_pods,
)
from provisioner.lint.values import Hole, items, look, mapping, text, whole
from provisioner.lint.world import Object, PodTemplate, World

_WELL_KNOWN = ("kube-system", "monitoring", "ingress-nginx", "cert-manager", "envoy-gateway-system", "gpu-operator")


@rule("network-policy-selects-nothing", Severity.ERROR)
def network_policy_selects_nothing(world: World) -> Iterator[Hit]:
    """A NetworkPolicy's podSelector matches no pod of its namespace, so it protects and allows nothing.

    Policies for pods that do not exist are accepted. Where the pods were meant to be isolated they are open, where
    something was meant to be allowed it is denied.
    """
    for policy in policies(world):
        found = policy.selector
        if found is not None and found.is_certain and not found.is_empty:
            why = nothing_selected(world, found, policy.object)
            if why:
                message = f"selecting pods: {why[0]}: {shown(str(found))}"
                yield Hit(at=policy.object, path=("spec", "podSelector"), message=message, fix=why[1])


def _own_peers(world: World) -> Iterator[tuple[Peer, FieldPath]]:
    """Peers that are pods of the policy's own namespace and match none there."""
    for policy in policies(world):
        for peer in policy.peers:
            found = selector(look(peer.value, "podSelector"))
            if (
                found is None
                or found.is_empty
                or not found.is_certain
                or look(peer.value, "namespaceSelector") is not None
            ):
                continue
            if not selected(world, found, policy.namespace) and not others_make_pods(world, policy.namespace):
                yield peer, (*peer.path, "podSelector")


@rule("network-peer-in-other-namespace", Severity.ERROR)
def network_peer_in_other_namespace(world: World) -> Iterator[Hit]:
    """A peer has only a podSelector, which looks into the policy's own namespace, but the pods meant are in another.

    The policy denies what it was written to allow. A namespaceSelector in the same item says where the pods are.
    """
    for peer, path in _own_peers(world):
        found = selector(look(peer.value, "podSelector"))
        other = next(iter(selected_anywhere(world, found)), None) if found else None
        space = other.namespace if other else _space_of_gateway(world, found, peer.policy.namespace)
        if space is not None:
            message = f"choosing peer: such pods are in namespace `{space}` only: {shown(str(found))}"
            fix = f"add a namespaceSelector with {NAMESPACE_NAME}: {space} to the same item"
            yield Hit(at=peer.policy.object, path=path, message=message, fix=fix)


_OF_GATEWAYS = ("gateway.envoyproxy.io/owning-gateway-name", "gateway.networking.k8s.io/gateway-name")
"""Labels that controllers put on the pods of a Gateway, with its name."""


def _space_of_gateway(world: World, found: Selector | None, namespace: str | None) -> str | None:
    """The other namespace in which the Gateway is whose pods a selector means."""
    names = [found.labels[key] for key in _OF_GATEWAYS if key in found.labels] if found else []
    gateways = [one.namespace for one in world.of_kind("Gateway") if one.name in names]
    return gateways[0] if gateways and namespace not in gateways and None not in gateways else None


@rule("network-peer-matches-nothing", Severity.WARNING)
def network_peer_matches_nothing(world: World) -> Iterator[Hit]:
    """A peer's podSelector matches no pod, but the folder has pods whose labels differ by a letter or two.

    The policy is accepted and lets nobody in. Peers that come from outside the folder are not reported.
    """
    for peer, path in _own_peers(world):
        found = selector(look(peer.value, "podSelector"))
        if found is None or selected_anywhere(world, found):
            continue
        near = next(near_misses(found, neighbours(world, peer.policy.object)), None)
        if near is not None:
            labels = ", ".join(f"{key}={near.labels.get(key)}" for key in found.labels)
            message = f"choosing peer: no pod has these labels: {shown(str(found))}"
            yield Hit(at=peer.policy.object, path=path, message=message, fix=f"{near.owner.title} has {labels}")


@lru_cache(maxsize=2)
def _spaces(world: World) -> frozenset[str]:
    """Every namespace that the folder speaks of, and those that most clusters have."""
    named = {found.name for found in world.of_kind("Namespace")}
    return frozenset({found.namespace for found in world.objects if found.namespace} | named | {*_WELL_KNOWN})


@lru_cache(maxsize=1024)  # the same few names stand in every policy
def _meant_space(world: World, name: str) -> str | None:
    return meant(name, _spaces(world))


@rule("network-namespace-misspelt", Severity.ERROR)
def network_namespace_misspelt(world: World) -> Iterator[Hit]:
    """A peer selects a namespace by a name that nothing else has, but one like it exists: `kube-sytem`.

    A policy for a namespace that does not exist is accepted and matches nothing. Only slips of one letter are
    reported.
    """
    for policy in policies(world):
        for peer in policy.peers:
            name = text(peer.value, "namespaceSelector", "matchLabels", NAMESPACE_NAME)
            if not name or name in _spaces(world):
                continue
            near = _meant_space(world, name)
            if near:
                path = (*peer.path, "namespaceSelector", "matchLabels", NAMESPACE_NAME)
                message = f"choosing peer: no namespace of that name is known: {shown(name)}"
                yield Hit(at=policy.object, path=path, message=message, fix=f"did you mean `{near}`?")


@rule("network-namespace-without-label", Severity.WARNING)
def network_namespace_without_label(world: World) -> Iterator[Hit]:
    """A peer selects namespaces by a label that no namespace of the folder has.

    Namespaces carry only `kubernetes.io/metadata.name` by themselves; a label such as `name` must be put on them.
    """
    for policy in policies(world):
        for peer in policy.peers:
            found = selector(look(peer.value, "namespaceSelector"))
            if found is None or found.is_empty or NAMESPACE_NAME in found.keys:
                continue
            unset = "name" in found.labels and not world.has("Namespace")
            if unset or namespace_matches(world, found) is False:
                message = f"choosing peer: no namespace of the folder has this label: {shown(str(found))}"
                fix = f"select by {NAMESPACE_NAME}, which every namespace has, or label the namespace"
                yield Hit(at=policy.object, path=(*peer.path, "namespaceSelector"), message=message, fix=fix)


def _targets(world: World, policy: Policy, direction: str, item: object) -> Iterator[Sequence[PodTemplate]]:
    """The pods whose ports a rule speaks of: the policy's own for ingress, each peer's for egress."""
    if direction == "ingress":
        found = policy.selector
        yield selected(world, found, policy.namespace) if found is not None else ()
        return
    for _, peer in items(item, "to"):
        pods = selector(look(peer, "podSelector"))
        space = selector(look(peer, "namespaceSelector"))
        if pods is None or pods.is_empty or not pods.is_certain:
            yield ()
        elif space is None:
            yield selected(world, pods, policy.namespace)
        else:
            names = selected_namespaces(world, space)
            found_pods = selected_anywhere(world, pods)
            yield [pod for pod in found_pods if names is None or pod.namespace is None or pod.namespace in names]


def _closed_ports(world: World) -> Iterator[tuple[Policy, FieldPath, int, Sequence[PodTemplate]]]:
    """Port numbers of rules that none of the pods they are about opens, though those declare ports."""
    for policy in policies(world):
        for direction, path, item in policy.rules():
            groups = list(_targets(world, policy, direction, item))
            pods = [pod for group in groups for pod in group]
            if not groups or not all(groups) or not all(ports(pod) for pod in pods):
                continue
            for place, entry in items(item, "ports"):
                number, end = whole(entry, "port"), whole(entry, "endPort")
                is_open = number is None or any(declares(pod, number) or mentions(pod, number) for pod in pods)
                if number is not None and end is None and not is_open:
                    yield policy, (*path, *place, "port"), number, pods


def _mapped(world: World, pods: Sequence[PodTemplate], number: int) -> tuple[Object, object] | None:
    """The Service that maps the port to another one of these pods."""
    for pod in pods:
        for service in services_of(world, pod):
            for _, item in items(service.value, "spec", "ports"):
                if whole(item, "port") == number and look(item, "targetPort") not in (None, number):
                    return service, look(item, "targetPort")
    return None


@rule("network-port-of-service", Severity.ERROR)
def network_port_of_service(world: World) -> Iterator[Hit]:
    """A policy allows the port of a Service, but traffic reaches pods on their own port.

    Policies are applied behind the Service's address, so the number that counts is its targetPort.
    """
    for policy, path, number, pods in _closed_ports(world):
        found = _mapped(world, pods, number)
        if found is not None:
            message = (
                f"allowing port: {shown(str(number))} is the port of {found[0].title}, its pods listen on {found[1]}"
            )
            yield Hit(at=policy.object, path=path, message=message, fix=f"allow port {found[1]}")


@rule("network-port-closed", Severity.WARNING)
def network_port_closed(world: World) -> Iterator[Hit]:
    """A policy allows a port that none of the pods it is about opens, so what it allows is not what is called.

    Only pods that declare their ports are looked at, and a port that a flag, probe or variable of theirs mentions
    counts as open.
    """
    for policy, path, number, pods in _closed_ports(world):
        if _mapped(world, pods, number) is None:
            numbers = sorted({found.number for pod in pods for found in ports(pod) if found.number})
            message = f"allowing port: no pod it is about opens {shown(str(number))}"
            yield Hit(at=policy.object, path=path, message=message, fix=f"they open {', '.join(map(str, numbers))}")


@rule("network-port-name-unknown", Severity.ERROR)
def network_port_name_unknown(world: World) -> Iterator[Hit]:
    """A policy allows a named port that no container of the pods it is about has, so it allows nothing.

    Names are looked up in the containers of the pods that traffic goes to: the policy's own for ingress, the peer's
    for egress.
    """
    for policy in policies(world):
        for direction, path, item in policy.rules():
            groups = list(_targets(world, policy, direction, item))
            pods = [pod for group in groups for pod in group]
            for place, entry in items(item, "ports") if groups and all(groups) else ():
                name = look(entry, "port")
                if (
                    isinstance(name, str)
                    and not isinstance(name, Hole)
                    and not any(declares(pod, name) for pod in pods)
                ):
                    names = sorted({found.name for pod in pods for found in ports(pod) if found.name})
                    message = f"allowing port: no container has a port of that name: {shown(name)}"
                    fix = f"name one of: {', '.join(names)}" if names else "use the number"
                    yield Hit(at=policy.object, path=(*path, *place, "port"), message=message, fix=fix)


def _isolated_spaces(world: World) -> dict[str | None, Policy]:
    """Namespaces with policies, each with its first one."""
    found: dict[str | None, Policy] = {}
    for policy in policies(world):
        if policy.isolates("ingress"):
            found.setdefault(policy.namespace, policy)
    return found


@lru_cache(maxsize=2)
def _denied_spaces(world: World) -> frozenset[str | None]:
    """Namespaces whose pods are isolated for ingress by a policy for all of them."""
    found = [policy for policy in policies(world) if policy.selector and policy.selector.is_empty]
    return frozenset(policy.namespace for policy in found if policy.isolates("ingress"))


def _denies_by_default(world: World, namespace: str | None) -> bool:
    spaces = _denied_spaces(world)
    known = None in spaces or namespace in spaces or (namespace is None and bool(spaces))
    return known or has_other_policies(world)


@rule("pods-without-network-policy", Severity.WARNING)
def pods_without_network_policy(world: World) -> Iterator[Hit]:
    """A namespace has network policies but no default deny, and some of its pods are selected by none of them.

    Whoever reaches the cluster's network reaches those pods.
    """
    for namespace, policy in _isolated_spaces(world).items():
        if _denies_by_default(world, namespace):
            continue
        open_pods = [pod for pod in neighbours(world, policy.object) if not denying(world, pod, "ingress")]
        for pod in open_pods:
            if ports(pod) and not pod.spec.get("hostNetwork"):
                message = f"isolating pods: none selects them of the policies in {shown(namespace or 'this namespace')}"
                fix = "add a policy with podSelector {} and policyTypes [Ingress, Egress] that denies by default"
                yield Hit(at=pod.owner, path=pod.path, message=message, fix=fix)


@rule("default-deny-missing", Severity.INFO)
def default_deny_missing(world: World) -> Iterator[Hit]:
    """A namespace has network policies but none that denies by default, so pods added later are open to everybody.

    Policies only add to what is allowed for the pods they select; a pod that none selects is open. One policy with
    an empty podSelector and no rules closes the namespace.
    """
    for namespace, policy in _isolated_spaces(world).items():
        if neighbours(world, policy.object) and not _denies_by_default(world, namespace):
            message = f"isolating namespace: no policy denies by default in {shown(namespace or 'this namespace')}"
            fix = "add a policy with podSelector {} and policyTypes [Ingress, Egress] and no rules"
            yield Hit(at=policy.object, path=("spec", "podSelector"), message=message, fix=fix)


@rule("network-ingress-without-from", Severity.WARNING)
def network_ingress_without_from(world: World) -> Iterator[Hit]:
    """An ingress rule names ports but no peers, so everybody may call them, past the gateway and its keys.

    Pods behind a Service of type LoadBalancer or NodePort are meant to be called from anywhere and are left out, and so
    are tenant clusters on shared nodes: their callers stand outside, where a tenant's selectors do not reach.
    """
    is_shared = bool(world.tenants) and not any(tenant.has_private_nodes for tenant in world.tenants)
    for policy in () if is_shared else policies(world):
        for _, path, item in policy.rules("ingress"):
            if look(item, "ports") and "from" not in mapping(item) and not _is_public(world, policy):
                message = "allowing ingress: the rule has no `from`, so it allows everybody"
                fix = "name the gateway's pods and namespace in `from`"
                yield Hit(at=policy.object, path=path, message=message, fix=fix)


def _is_public(world: World, policy: Policy) -> bool:
    found = policy.selector
    pods = selected(world, found, policy.namespace) if found is not None else ()
    types = {look(service.value, "spec", "type") for pod in pods for service in services_of(world, pod)}
    return not pods or bool(types & {"LoadBalancer", "NodePort"}) or any(pod.spec.get("hostNetwork") for pod in pods)


@rule("service-port-denied", Severity.ERROR)
def service_port_denied(world: World) -> Iterator[Hit]:
    """No network policy allows anybody to reach the port behind a Service, so the Service cannot be used.

    The pods are isolated for ingress, and no rule of any policy that selects them covers the port.
    """
    known: dict[PodTemplate, tuple[Sequence[Policy], Sequence[object]]] = {}
    for service in () if has_other_policies(world) else world.of_kind("Service"):
        found = selector({"matchLabels": look(service.value, "spec", "selector")})
        if (
            found is None
            or found.is_empty
            or not found.is_certain
            or look(service.value, "spec", "clusterIP") == "None"
        ):
            continue
        for pod in selected(world, found, service.namespace):
            if pod not in known:
                policies_of_pod = denying(world, pod, "ingress")
                each_once = {repr(item): item for policy in policies_of_pod for item in policy.allows("ingress")}
                known[pod] = policies_of_pod, list(each_once.values())
            denied, rules = known[pod]
            for path, item in items(service.value, "spec", "ports") if denied and rules else ():
                number, protocol = _number(pod, item), text(item, "protocol") or "TCP"
                if any(covers(each, whole(item, "port") or 0, protocol) for each in rules):
                    continue  # the rule names the Service's port: another rule of ours says so
                if number is not None and not any(_reaches(pod, each, number, protocol) for each in rules):
                    message = (
                        f"reaching pods: no policy lets anybody call port {shown(str(number))} of {pod.owner.title}"
                    )
                    fix = f"add port {number} to the ingress rule of {denied[-1].object.title}"
                    yield Hit(at=service, path=path, message=message, fix=fix)


def _number(pod: PodTemplate, item: object) -> int | None:
    target = look(item, "targetPort")
    if target is None:
        return whole(item, "port")
    if isinstance(target, str):
        return next((found.number for found in ports(pod) if found.name == target), None)
    return target if isinstance(target, int) else None


def _reaches(pod: PodTemplate, item: object, number: int, protocol: str) -> bool:
    names = [entry.name for entry in ports(pod) if entry.number == number]
    return covers(item, number, protocol) or any(
        look(entry, "port") in names for _, entry in items(item, "ports") if names
    )


@rule("network-policy-on-host-network", Severity.INFO)
def network_policy_on_host_network(world: World) -> Iterator[Hit]:
    """A policy selects pods that use their node's network, to which most network plug-ins do not apply policies.

    What reaches the node reaches such a pod. The Kubernetes documentation leaves the behaviour to the network
    plug-in; most treat the traffic as the node's.
    """
    for pod in world.pods:
        found = policies_of_pods(world).get(id(pod), ())
        if found and pod.spec.get("hostNetwork") is True:
            message = f"isolating pods: {shown(found[0].object.name)} does not apply to host networking"
            yield Hit(at=pod.owner, path=pod.at("hostNetwork"), message=message, fix="leave hostNetwork out")
