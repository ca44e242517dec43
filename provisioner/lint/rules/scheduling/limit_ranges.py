"""LimitRanges whose defaults do not fit the containers beside them.

Source: Kubernetes documentation, "Limit Ranges", on default limits and requests; the API server's validation of pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount, plain, pod_total
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, items, look, mapping, text
from provisioner.lint.world import World


@rule("limit-range-default-below-request", Severity.ERROR)
def limit_range_default_below_request(world: World) -> Iterator[Hit]:
    """A container asks for more than the limit that a LimitRange gives it by default, and has no limit of its own.

    The LimitRange fills in the limit, and the pod is refused: `must be less than or equal to memory limit`. The
    workload is accepted and stays at zero pods.
    """
    for found in world.of_kind("LimitRange"):
        for _, item in items(found.value, "spec", "limits"):
            defaults = {**mapping(item, "max"), **mapping(item, "default")}
            if text(item, "type") != "Container" or found.namespace is None:
                continue
            for pod in world.pods_in(found.namespace):
                for container in pod.containers if pod.namespace == found.namespace else ():
                    limits = look(container.value, "resources", "limits")
                    for name, value in mapping(container.value, "resources", "requests").items():
                        asked, most = amount(value), amount(defaults.get(name))
                        is_own = isinstance(limits, Hole) or look(limits, name) is not None
                        if asked is not None and most is not None and asked > most and not is_own:
                            message = (
                                f"limiting container {shown(container.name)}: it asks for {plain(asked)} of {name} and "
                                f"gets the default limit of {found.title}: `{plain(most)}`"
                            )
                            fix = f"set resources.limits.{name} of the container"
                            path = (*container.path, "resources", "requests", name)
                            yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("limit-range-refuses-pod", Severity.ERROR)
def limit_range_refuses_pod(world: World) -> Iterator[Hit]:
    """A pod asks for more than a LimitRange allows for all containers of a pod together.

    The workload is accepted; its controller reports `maximum … usage per Pod is …` and stays at zero pods.
    """
    for found in world.of_kind("LimitRange"):
        for _, item in items(found.value, "spec", "limits"):
            if text(item, "type") != "Pod" or found.namespace is None:
                continue
            for pod in world.pods_in(found.namespace) if mapping(item, "max") else ():
                for name, value in pod_total(pod, limits=True).items() if pod.namespace == found.namespace else ():
                    most = amount(look(item, "max", name))
                    if most is not None and value > most:
                        message = f"limiting pod: {plain(value)} of {name} is above what {found.title} allows a pod"
                        fix = f"lower it to {plain(most)}, or raise the maximum"
                        place = pod.at("containers")
                        yield Hit(at=pod.owner, path=place, message=f"{message}: {shown(plain(most))}", fix=fix)
