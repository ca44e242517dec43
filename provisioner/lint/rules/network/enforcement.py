"""Whether anything enforces the network policies of a folder: networks that do not know them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.network._policies import policies
from provisioner.lint.values import look, text
from provisioner.lint.world import World

_BLIND = re.compile(r"(^|/)(flannel|kube-flannel)([:@/-]|$)")
_ENFORCES = re.compile(
    r"calico|canal|cilium|antrea|kube-router|weave|kube-network-policies|ovn|romana|network-policy-agent", re.IGNORECASE
)
_RELEASES = ("Application", "HelmChart", "HelmRelease")


@rule("network-policies-not-enforced", Severity.WARNING)
def network_policies_not_enforced(world: World) -> Iterator[Hit]:
    """The folder has NetworkPolicies, and a network for pods that does not enforce any.

    Flannel moves packets and knows no policies: they are accepted, and everybody reaches everything. Said where the
    folder shows nothing beside it that enforces them, such as Calico (Canal), Cilium or kube-network-policies.
    """
    found = policies(world)
    shown = [(pod.owner, container.image) for pod in world.pods for container in pod.containers] if found else []
    shown += [(one, _chart(one.value)) for one in world.of_kind(*_RELEASES)] if found else []
    if any(_ENFORCES.search(f"{image} {owner.name}") for owner, image in shown):
        return
    for owner, image in shown:
        if _BLIND.search(image):
            message = f"enforcing policies: {image.rpartition('/')[2]} does not, and the folder has `{len(found)}`"
            fix = "use a network that enforces them, or add kube-network-policies"
            yield Hit(at=owner, path=("metadata", "name"), message=message, fix=fix)
            return


def _chart(value: object) -> str:
    places = (("spec", "source", "chart"), ("spec", "chart"), ("spec", "chart", "spec", "chart"))
    return next((name for path in places if isinstance(look(value, *path), str) and (name := text(value, *path))), "")
