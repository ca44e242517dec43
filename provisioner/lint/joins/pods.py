"""What rules ask about pods: their ports and volumes, their neighbours, and whether others make pods beside them. Pure.

What rules about Services, policies, quotas and workloads look through; no rules stand here. The folder rarely shows all
pods: operators and charts make some, and rules that miss a pod ask `others_make_pods` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.values import items, look, mapping, text, whole
from provisioner.lint.world import Container, Object, PodTemplate, World, same_namespace

_BUILT_IN = frozenset(["", "apps", "batch", "autoscaling", "policy", "events"])
_MAKE_NO_PODS = frozenset(
    [
        "AppProject",
        "BackendConfig",
        "CustomResourceDefinition",
        "GCPBackendPolicy",
        "Kustomization",
        "LeaderWorkerSet",
        "ManagedCertificate",
        "PodMonitor",
        "PrometheusRule",
        "ScaledObject",
        "ServiceMonitor",
        "TriggerAuthentication",
    ]
)
_DELIVERIES = frozenset(["Application", "ApplicationSet", "HelmChart", "HelmRelease", "Kustomization"])
_POD_FIELDS = frozenset(
    [
        "containers",
        "deployment",
        "engine",
        "headGroupSpec",
        "image",
        "instances",
        "models",
        "nodeSets",
        "podTemplate",
        "predictor",
        "rayClusterConfig",
        "replicas",
        "resources",
        "services",
        "size",
        "template",
        "worker",
    ]
)
"""Fields in the spec of custom objects that make pods."""
_QUIET_GROUPS = (
    "karpenter.sh",
    "karpenter.k8s.aws",
    "cert-manager.io",
    "cilium.io",
    "crd.projectcalico.org",
    "external-secrets.io",
    "gateway.envoyproxy.io",
    "gateway.networking.k8s.io",
    "inference.networking.k8s.io",
    "inference.networking.x-k8s.io",
    "kueue.x-k8s.io",
    "management.loft.sh",
    "networking.istio.io",
    "policy.networking.k8s.io",
    "projectcalico.org",
    "resource.nvidia.com",
    "security.istio.io",
    "storage.loft.sh",
)


def _makes_pods(world: World, found: Object) -> bool:
    if found.group in _BUILT_IN or found.group in _QUIET_GROUPS or found.kind in _MAKE_NO_PODS:
        return False
    if found.group.endswith(".k8s.io") and "x-k8s" not in found.group:
        return False
    if found.kind not in _DELIVERIES and not _POD_FIELDS & mapping(found.value, "spec").keys():
        return False
    return not (found.kind == "Application" and _is_shown(world, text(found.value, "spec", "source", "path")))


def _is_shown(world: World, path: str | None) -> bool:
    """Whether the folder that an Application syncs is below the linted paths."""
    wanted = f"/{(path or '').strip('./')}/"
    return wanted != "//" and any(wanted in f"/{found.file}" for found in world.documents)


@lru_cache(maxsize=2)
def _makers(world: World) -> tuple[str | None, ...]:
    spaces: set[str | None] = set()
    for found in world.objects:
        if _makes_pods(world, found):
            spec = found.value.get("spec")
            space = text(spec, "destination", "namespace") or text(spec, "targetNamespace") or found.namespace
            spaces.add(space)
    return tuple(spaces)


def others_make_pods(world: World, namespace: str | None) -> bool:
    """Whether an object in the namespace makes pods that the folder does not show: an operator's, a chart's."""
    return any(same_namespace(namespace, space) for space in _makers(world))


def may_hold_tenants(namespace: str | None) -> bool:
    """Whether tenants' workloads may be in a namespace: it is none of the cluster's own."""
    name = namespace or ""
    return not (name.startswith("kube-") or name.endswith("-system") or name in _PLATFORM)


_RAY = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}


KSERVE = "serving.kserve.io"
"""KServe's API group."""
_SERVED = {
    "InferenceService": (("spec", "predictor"), ("spec", "transformer"), ("spec", "explainer")),
    "LLMInferenceService": (
        *(("spec", "template"), ("spec", "worker")),
        *(("spec", "prefill", "template"), ("spec", "prefill", "worker")),
    ),
}
"""Where KServe's objects hold the spec of a pod."""


@dataclass(frozen=True, eq=False)
class Predictor(PodTemplate):
    """The pods of an object of KServe: `path` leads to what is itself the pod's spec."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The pod's spec."""
        return mapping(self.owner.value, *self.path)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Its containers; the model of a serving runtime is merged into the runtime's and is not among them."""
        return tuple(
            Container(item, (*self.path, *path), is_init=False)
            for path, item in items(self.spec, "containers")
            if isinstance(item, Mapping)
        )

    def at(self, *path: str | int) -> FieldPath:
        """The path of a field of the pod's spec, from the owner's top."""
        return (*self.path, *path)


def with_models(pod: PodTemplate) -> tuple[Container, ...]:
    """The containers of a pod, and the model of a predictor: what it says goes into the runtime's container."""
    model = mapping(pod.spec, "model") if isinstance(pod, Predictor) else {}
    return (*pod.containers, *([Container(model, (*pod.path, "model"), is_init=False)] if model else []))


def _kserve_pods(world: World) -> Iterator[PodTemplate]:
    for kind, paths in _SERVED.items():
        for owner in world.of_kind(kind):
            yield from (Predictor(owner, path) for path in paths if mapping(owner.value, *path))
    for owner in world.of_kind("ServingRuntime", "ClusterServingRuntime"):
        yield PodTemplate(owner, ())


@lru_cache(maxsize=2)
def every_pod(world: World) -> tuple[PodTemplate, ...]:
    """The pod templates of the world and those of Ray clusters and of KServe, for rules that look at pods by
    themselves."""
    ray = []
    for kind, path in _RAY.items():
        for owner in world.of_kind(kind):
            ray.append(PodTemplate(owner, (*path, "headGroupSpec", "template")))
            for place, _ in items(look(owner.value, *path), "workerGroupSpecs"):
                ray.append(PodTemplate(owner, (*path, *place, "template")))
    return (*world.pods, *ray, *(pod for pod in _kserve_pods(world) if pod.owner.group == KSERVE))


def neighbours(world: World, at: Object) -> tuple[PodTemplate, ...]:
    """The pods that surely belong beside an object: of its namespace, or, where it names none, of its folder."""
    pods = world.pods_in(at.namespace)
    if at.namespace is not None:
        named = tuple(pod for pod in pods if pod.namespace is not None)
        return named or tuple(pod for pod in pods if pod.owner.folder == at.folder)
    return tuple(pod for pod in pods if pod.owner.folder == at.folder)


def are_together(one: Object, other: Object) -> bool:
    """Whether two objects may be applied to the same cluster: overlays beside each other are for different ones."""
    return None in (one.kustomization, other.kustomization) or one.kustomization == other.kustomization


_PLATFORM = frozenset(
    ["cert-manager", "gpu-operator", "keda", "monitoring", "observability", "argocd", "ingress-nginx"]
)


def is_node_agent(pod: PodTemplate) -> bool:
    """Whether the pod is one per node: drivers, exporters and networks need the node itself."""
    return pod.owner.kind == "DaemonSet"


@dataclass(frozen=True, slots=True)
class Port:
    """A port that a container declares."""

    number: int | None
    name: str | None
    protocol: str


@lru_cache(maxsize=20_000)
def ports(pod: PodTemplate) -> tuple[Port, ...]:
    """Every port that the pod's containers declare."""
    return tuple(
        Port(whole(item, "containerPort"), text(item, "name"), text(item, "protocol") or "TCP")
        for container in pod.containers
        for _, item in items(container.value, "ports")
    )


def declares(pod: PodTemplate, wanted: int | str) -> bool:
    """Whether a container declares a port of that number or name."""
    return any(wanted == (found.number if isinstance(wanted, int) else found.name) for found in ports(pod))


def mentions(pod: PodTemplate, number: int) -> bool:
    """Whether flags, probes or variables of a container speak of a port: it may be open though nobody declares it."""
    word = re.compile(rf"(?<![0-9]){number}(?![0-9])")
    for container in pod.containers:
        if any(word.search(argument) for argument in container.arguments) or _named(container, word):
            return True
    return False


def _named(container: Container, word: re.Pattern[str]) -> bool:
    values = [text(item, "value") for _, item in items(container.value, "env")]
    probes = [
        look(container.value, name, "httpGet", "port") for name in ("startupProbe", "readinessProbe", "livenessProbe")
    ]
    return any(word.search(str(value)) for value in (*values, *probes) if value is not None)


def volumes(pod: PodTemplate) -> dict[str, Any]:
    """The pod's volumes by name, claims of a StatefulSet's own templates included."""
    found = {str(item.get("name")): item for _, item in items(pod.spec, "volumes") if isinstance(item, Mapping)}
    if pod.owner.kind == "StatefulSet":
        for _, claim in items(pod.owner.value, "spec", "volumeClaimTemplates"):
            found.setdefault(str(text(claim, "metadata", "name")), {})
    return found
