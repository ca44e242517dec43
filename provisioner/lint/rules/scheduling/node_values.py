"""Node labels with values that no node has, and DaemonSets that run on no node.

Source: what NVIDIA's GPU feature discovery writes; Kubernetes documentation, "DaemonSet", taints and tolerations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.scheduling._nodes import candidates, nodes, requirements, tolerates
from provisioner.lint.values import has_hole, literal, texts
from provisioner.lint.world import World

_PRODUCT = "nvidia.com/gpu.product"


@rule("gpu-product-unlikely", Severity.WARNING)
def gpu_product_unlikely(world: World) -> Iterator[Hit]:
    """A pod asks for a GPU product by a name that GPU feature discovery does not write.

    The label `nvidia.com/gpu.product` holds the driver's name with dashes, such as `NVIDIA-H100-80GB-HBM3`,
    `NVIDIA-A100-SXM4-80GB`, `NVIDIA-L4` or `Tesla-T4`, with `-SHARED` or `-MIG-1g.10gb` behind it where GPUs are shared
    or cut. Case counts. A node or pool of the folder with the label is taken at its word.
    """
    for pod in every_pod(world):
        for path, (key, operator, values) in requirements(pod):
            if key != _PRODUCT or operator != "In" or any(key in one.labels for one in nodes(world)):
                continue
            wrong = [value for value in values if _is_unlikely(value)]
            if wrong and len(wrong) == len(values):
                message = f"placing pod: no GPU has this product name: {shown(wrong[0])}"
                fix = "write the name as `kubectl get nodes -L nvidia.com/gpu.product` shows it"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


def _is_unlikely(value: str) -> bool:
    """Whether a product name is the short one of people, or has the wrong case."""
    is_short = re.fullmatch(r"[A-Za-z]{1,3}[0-9]{1,4}[A-Za-z]?", value) is not None
    return is_short or value == value.lower() or " " in value


@rule("daemon-set-on-no-node", Severity.WARNING)
def daemon_set_on_no_node(world: World) -> Iterator[Hit]:
    """Every node that a DaemonSet selects has a taint that its pods do not tolerate, so it runs nowhere.

    A DaemonSet tolerates by itself only what the node controller adds, such as `node.kubernetes.io/not-ready`. It
    reports zero desired pods, and nothing complains.
    """
    for pod in world.pods:
        if pod.owner.kind != "DaemonSet" or not requirements(pod):
            continue
        found = candidates(world, pod)
        refused = [next((taint for taint in one.taints if not tolerates(pod, taint)), None) for one in found]
        if found and None not in refused and not any(one.is_open for one in found):
            taint = refused[0] or {}
            word = f"{taint.get('key')}={taint.get('value', '')}:{taint.get('effect')}"
            message = f"placing pods: every node that is selected has a taint: {shown(word)}"
            fix = f"add a toleration with key {taint.get('key')}, operator Exists"
            yield Hit(at=pod.owner, path=pod.at("tolerations"), message=message, fix=fix)


_VALUES = {
    "kubernetes.io/arch": ("amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "loong64", "mips64le"),
    "kubernetes.io/os": ("linux", "windows"),
    "karpenter.sh/capacity-type": ("on-demand", "spot", "reserved"),
}
_MEANT = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "ondemand": "on-demand"}


@rule("node-label-value-unknown", Severity.ERROR)
def node_label_value_unknown(world: World) -> Iterator[Hit]:
    """A pod asks for a value that a label of nodes never has, such as the architecture `x86_64`.

    Architectures are those of Go: amd64, arm64. Systems are lower case. No node matches, and the pod stays Pending.
    """
    for pod in every_pod(world):
        for path, (key, operator, values) in requirements(pod):
            known = _VALUES.get(key, ()) if operator == "In" else ()
            wrong = [value for value in values if value not in known and not has_hole(value)] if known else []
            if wrong and len(wrong) == len(values):
                near = _MEANT.get(wrong[0].lower()) or nearest_name(wrong[0], known)
                message = f"placing pod: {key} is never so: {shown(wrong[0])}"
                fix = f"did you mean {near}?" if near else f"write one of: {', '.join(known)}"
                yield Hit(at=pod.owner, path=path, message=message, fix=fix)


@rule("runtime-class-elsewhere", Severity.ERROR)
def runtime_class_elsewhere(world: World) -> Iterator[Hit]:
    """A pod selects other nodes than its RuntimeClass does.

    The nodeSelector of a RuntimeClass is added to that of its pods; where they differ the API server refuses the pod:
    `conflict: runtimeClass.scheduling.nodeSelector[…]`.
    """
    for pod in every_pod(world):
        found = world.find("RuntimeClass", literal(pod.spec, "runtimeClassName") or "")
        wanted = texts(found.value, "scheduling", "nodeSelector") if found else {}
        for key, value in texts(pod.spec, "nodeSelector").items():
            if found and key in wanted and wanted[key] != value:
                message = f"placing pod: RuntimeClass {found.name} wants {key}={wanted[key]}, the pod `{value}`"
                fix = f"remove {key} from the pod's nodeSelector, or take another RuntimeClass"
                yield Hit(at=pod.owner, path=pod.at("nodeSelector", key), message=message, fix=fix)
