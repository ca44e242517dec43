"""Services whose selectors are known, and which of them select a pod. Pure; no rules stand here.

The rules about Services, routes, engines and network policies look through it. A selector with a hole selects what
nobody knows, and an empty one nothing; both are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from provisioner.lint.joins.selectors import Selector, equality, pod_labels
from provisioner.lint.values import items, look, text, whole
from provisioner.lint.world import Object, PodTemplate, World


def services(world: World) -> Iterator[tuple[Object, Selector]]:
    """Services with a selector that is known and says something."""
    for service in world.of_kind("Service"):
        found = equality(look(service.value, "spec", "selector"))
        if not service.group and found is not None and found.is_certain and not found.is_empty:
            yield service, found


@lru_cache(maxsize=2)
def _services_by_label(
    world: World,
) -> Mapping[tuple[str, str], Mapping[str | None, Sequence[tuple[Object, Selector]]]]:
    """By one label of their selectors, and by namespace."""
    found: dict[tuple[str, str], dict[str | None, list[tuple[Object, Selector]]]] = {}
    for service, chosen in services(world):
        spaces = found.setdefault(max(chosen.labels.items(), key=str), {})
        spaces.setdefault(service.namespace, []).append((service, chosen))
    return found


def services_of(world: World, pod: PodTemplate) -> Iterator[Object]:
    """The Services that select a pod."""
    for label in pod.labels.items():
        by_space = _services_by_label(world).get(label, {})
        for space in by_space if pod.namespace is None else (pod.namespace, None):
            for service, found in by_space.get(space, ()):
                if found.matches(pod_labels(pod)):
                    yield service


_SERVE_PORT = 8000
"""Ray Serve's, where no port of the containers is called `serve`."""


def serve_ports(found: Object) -> list[int]:
    """The ports to which the Service of a RayService leads that KubeRay makes for requests."""
    path = ("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers")
    ports = (item for place, _ in items(found.value, *path) for _, item in items(found.value, *place, "ports"))
    named = [whole(item, "containerPort") for item in ports if text(item, "name") == "serve"]
    return [number for number in named if number is not None] or [_SERVE_PORT]
