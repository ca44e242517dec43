"""NetworkPolicies against monitors: a Prometheus that is to scrape pods and may not reach them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import applications
from provisioner.lint.joins.pods import ports
from provisioner.lint.joins.selectors import NAMESPACE_NAME, namespace_labels, selected, selector
from provisioner.lint.joins.services import services_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import Policy, covers, denying, has_other_policies
from provisioner.lint.values import Hole, items, look, text
from provisioner.lint.world import Object, PodTemplate, World, same_namespace

_SERVERS = ("Prometheus", "PrometheusAgent")
_CHARTS = ("kube-prometheus-stack", "prometheus-operator")
"""Charts that bring a Prometheus for monitors."""


@lru_cache(maxsize=2)
def _server_spaces(world: World) -> frozenset[str]:
    """The namespaces of every Prometheus in the folder; none where one of them is not known."""
    spaces = [server.namespace for server in world.of_kind(*_SERVERS)]
    charts = (app for app in applications(world) if any(source.chart in _CHARTS for source in app.sources))
    spaces += [app.namespace for app in charts]
    return frozenset(space for space in spaces if space) if None not in spaces else frozenset()


def _scraped(world: World) -> Iterator[tuple[Object, PodTemplate, set[int]]]:
    """The monitors, the pods that each selects, and the ports that it scrapes, as far as those are declared."""
    for monitor in world.of_kind("PodMonitor"):
        found = selector(look(monitor.value, "spec", "selector"))
        names = {text(item, "port") for _, item in items(monitor.value, "spec", "podMetricsEndpoints")}
        if found is not None and found.is_certain and not look(monitor.value, "spec", "namespaceSelector"):
            for pod in selected(world, found, monitor.namespace):
                yield monitor, pod, {one.number for one in ports(pod) if one.name in names and one.number}
    for monitor in world.of_kind("ServiceMonitor"):
        found = selector(look(monitor.value, "spec", "selector"))
        if found is None or not found.is_certain or look(monitor.value, "spec", "namespaceSelector"):
            continue
        for pod in world.pods_in(monitor.namespace):
            if any(found.matches(service.labels) for service in services_of(world, pod)):
                yield monitor, pod, set()


@rule("scrape-denied", Severity.ERROR)
def scrape_denied(world: World) -> Iterator[Hit]:
    """Network policies keep the Prometheus of the folder from pods that a monitor has it scrape.

    The pods are isolated for ingress, and no rule lets in the namespace in which Prometheus runs: the target is down,
    and scalers and alerts that go by its metrics see nothing.
    """
    spaces = frozenset() if has_other_policies(world) else _server_spaces(world)
    for monitor, pod, numbers in _scraped(world) if spaces else ():
        denied = denying(world, pod, "ingress")
        inside = any(same_namespace(pod.namespace, space) for space in spaces)
        if not denied or inside or pod.spec.get("hostNetwork"):
            continue
        if not any(
            _admits(world, policy, item, spaces, numbers) for policy in denied for item in policy.allows("ingress")
        ):
            where = ", ".join(sorted(spaces))
            message = f"scraping {pod.owner.title}: no policy lets in Prometheus, which is in namespace `{where}`"
            fix = f"add a rule to {denied[-1].object.title} with a namespaceSelector {NAMESPACE_NAME}: {where}"
            yield Hit(at=monitor, path=("spec", "selector"), message=message, fix=fix)


def _admits(world: World, policy: Policy, item: Any, spaces: frozenset[str], numbers: set[int]) -> bool:
    """Whether a rule lets in, or may let in, a pod of one of some namespaces."""
    if numbers and not any(covers(item, number, "TCP") for number in numbers) and not _names_port(item):
        return False
    peers = look(item, "from")
    if not isinstance(peers, list) or not peers:
        return True
    return any(_is_peer(world, policy, peer, space) for peer in peers for space in spaces)


def _names_port(item: Any) -> bool:
    return any(isinstance(look(entry, "port"), str) for _, entry in items(item, "ports"))


def _is_peer(world: World, policy: Policy, peer: Any, space: str) -> bool:
    chosen = look(peer, "namespaceSelector")
    if look(peer, "ipBlock") is not None or isinstance(peer, Hole) or isinstance(chosen, Hole):
        return True
    found = selector(chosen)
    if found is None:
        return policy.namespace == space
    shown = world.find("Namespace", space)
    if not found.is_certain or (shown is None and found.keys - {NAMESPACE_NAME}):
        return True  # its labels are not known
    return found.matches(namespace_labels(shown) if shown else {NAMESPACE_NAME: space})
