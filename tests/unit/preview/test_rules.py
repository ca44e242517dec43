"""What a change of a field does to endpoints: rules one by one, and that nothing we render is unknown to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from provisioner.preview.effect import Effect, Reach, judge
from provisioner.preview.parts import parts
from provisioner.preview.rules import RULES
from provisioner.preview.rules.published import VERSION
from provisioner.preview.rules.values import VALUES
from provisioner.preview.rules.workloads import REVISED
from provisioner.preview.sides import GATEWAY_LIMITS
from provisioner.preview.units import PLATFORM
from provisioner.rendering.diff import ABSENT
from provisioner.rendering.opening import opened_text
from tests.unit.preview.sides import rendered
from tests.unit.rendering.examples import catalog, example_pack, example_plan

POOL = "privateNodes.autoNodes[aws].static[gpu]"
HELD = "privateNodes.autoNodes[{{ .Values.provider }}]"
STACK, SOURCES = "ArgoCDApplicationTemplate", "spec.template.spec.sources"
APPLICATION = "deploy.argoCD.applications[runtime]"


@pytest.mark.parametrize(
    ("kind", "path", "before", "after", "effect"),
    [
        (VALUES, "privateNodes.enabled", False, True, Effect.TENANT_RECREATED),
        (VALUES, "privateNodes.vpn.enabled", False, True, Effect.TENANT_RECREATED),
        (VALUES, f"{POOL}.quantity", 1, 2, Effect.NOTHING),
        (VALUES, f"{POOL}.quantity", 2, 1, Effect.NODES_REPLACED),
        (VALUES, f"{POOL}.quantity", "{{ .Values.nodes }}", 1, Effect.NODES_REPLACED),
        (VALUES, f"{POOL}.nodeTypeSelector[0].values[0]", "aws.gpu-l4", "aws.gpu-l40s", Effect.NODES_REPLACED),
        (VALUES, f"{POOL}.nodeLabels.a", "b", "c", Effect.NODES_REPLACED),
        (VALUES, "privateNodes.autoNodes[aws].dynamic[burst].limits.nodes", "4", "8", Effect.CONFIG_RELOAD),
        (VALUES, "privateNodes.autoNodes[aws].dynamic[burst].disruption.budgets", ABSENT, [], Effect.CONFIG_RELOAD),
        (VALUES, "privateNodes.autoNodes[aws].dynamic[burst].expireAfter", "Never", "9h", Effect.NODES_REPLACED),
        (VALUES, "privateNodes.autoNodes[0].provider", "aws", "metal3", Effect.TENANT_RECREATED),
        (VALUES, f"{HELD}.dynamic[burst].limits.nodes", "4", "8", Effect.CONFIG_RELOAD),
        (VALUES, f"{HELD}.static[gpu].taints", ABSENT, [], Effect.NODES_REPLACED),
        (VALUES, f"{HELD}.dynamic", [{"name": "burst"}], ABSENT, Effect.NODES_REPLACED),
        (VALUES, POOL, ABSENT, {"name": "gpu"}, Effect.NOTHING),
        (VALUES, POOL, {"name": "gpu"}, ABSENT, Effect.NODES_REPLACED),
        (VALUES, "privateNodes.autoNodes", [{}], ABSENT, Effect.NODES_REPLACED),
        (VALUES, "controlPlane.backingStore.etcd.embedded.enabled", False, True, Effect.DATA_LOST),
        (VALUES, "controlPlane.distro.k8s.version", "v1.35.0", "v1.36.0", Effect.NODES_REPLACED),
        (VALUES, "controlPlane.distro.k8s.apiServer.extraArgs[0]", "a", "b", Effect.CONFIG_RELOAD),
        (VALUES, "controlPlane.statefulSet.highAvailability.replicas", 1, 3, Effect.CONFIG_RELOAD),
        (VALUES, "networking.podCIDR", "10.0.0.0/16", "10.1.0.0/16", Effect.TENANT_RECREATED),
        (VALUES, "networking.advanced.clusterDomain", "a", "b", Effect.CONFIG_RELOAD),
        (VALUES, APPLICATION, ABSENT, {"name": "runtime"}, Effect.CONFIG_RELOAD),
        (VALUES, APPLICATION, {"name": "runtime"}, ABSENT, Effect.DATA_LOST),
        (VALUES, f"{APPLICATION}.template.name", "one", "two", Effect.PODS_RESTART),
        (VALUES, "integrations.argoCD.enabled", True, False, Effect.DATA_LOST),
        (VALUES, "deletion.auto.afterInactivity", ABSENT, "1h", Effect.DATA_LOST),
        (VALUES, "telemetry", ABSENT, {"enabled": False}, Effect.CONFIG_RELOAD),
        (VALUES, "somethingNew.key", 1, 2, Effect.PODS_RESTART),
        (VERSION, "", ABSENT, {"version": "1.1.0"}, Effect.NEW_VERSION),
        (VERSION, "template.helmRelease.chart.version", "0.36.0", "0.37.2", Effect.CONFIG_RELOAD),
        (VERSION, "template.helmRelease.chart.name", "vcluster", "other", Effect.TENANT_RECREATED),
        (VERSION, "parameters[nodes].label", "a", "b", Effect.NOTHING),
        (VERSION, "parameters[more]", ABSENT, {"variable": "more"}, Effect.CONFIG_RELOAD),
        ("VirtualClusterTemplate", "spec.description", "a", "b", Effect.NOTHING),
        ("VirtualClusterInstance", "spec.templateRef.version", "1.0.0", "1.1.0", Effect.NEW_VERSION),
        ("VirtualClusterInstance", "spec.parameters>nodeType", "aws.a", "aws.b", Effect.NODES_REPLACED),
        ("VirtualClusterInstance", "spec.parameters>nodes", 1, 2, Effect.CONFIG_RELOAD),
        ("VirtualClusterInstance", "spec.parameters>nodes", 2, 1, Effect.NODES_REPLACED),
        ("VirtualClusterInstance", "spec.clusterRef.cluster", "a", "b", Effect.TENANT_RECREATED),
        ("VirtualClusterInstance", "", {}, ABSENT, Effect.DATA_LOST),
        (STACK, f"{SOURCES}[keda].targetRevision", "1", "2", Effect.CONFIG_RELOAD),
        (STACK, f"{SOURCES}[keda].helm.releaseName", "a", "b", Effect.PODS_RESTART),
        (STACK, f"{SOURCES}[gpu-operator].targetRevision", "1", "2", Effect.PODS_RESTART),
        (STACK, f"{SOURCES}[vnode].targetRevision", "1", "2", Effect.PODS_RESTART),
        (STACK, f"{SOURCES}[envoy-gateway].targetRevision", "1", "2", Effect.PODS_RESTART),
        (STACK, f"{SOURCES}[some-new].targetRevision", "1", "2", Effect.PODS_RESTART),
        (STACK, f"{SOURCES}[keda]", {}, ABSENT, Effect.DATA_LOST),
        ("ArgoCDApplicationTemplate", "spec.template.spec.syncPolicy.retry.limit", 1, 2, Effect.CONFIG_RELOAD),
        ("NodeProvider", "spec.aws.nodeTypes[gpu].cost", 1, 2, Effect.NOTHING),
        ("NodeProvider", "spec.aws.nodeTypes[gpu].resources.cpu", "1", "2", Effect.NODES_REPLACED),
        ("NodeProvider", "spec.terraform.nodeTypes[gpu].metadata.labels.a", "b", "c", Effect.NOTHING),
        ("NodeProvider", "spec.terraform.nodeTemplate.timeout", "45m", "60m", Effect.NOTHING),
        ("NodeProvider", "spec.terraform.nodeTemplate.git.fetchInterval", "5m", "9m", Effect.NOTHING),
        ("NodeProvider", "spec.terraform.nodeTemplate.git.tag", "v1", "v2", Effect.NODES_REPLACED),
        ("NodeProvider", "spec.kubeVirt.deploy.kubevirt.version", "1", "2", Effect.CONFIG_RELOAD),
        ("NodeProvider", "spec.bcm.secretRef.name", "a", "b", Effect.CONFIG_RELOAD),
        (GATEWAY_LIMITS, "requestsPerMinute", 600, 300, Effect.CONFIG_RELOAD),
        ("NodeProfile", "spec.nodeLabels.a", "b", "c", Effect.NODES_REPLACED),
        ("Project", "spec.quotas.project.nodeclaims", "1", "2", Effect.NOTHING),
        ("StatefulSet", "spec.template.spec.containers[server].image", "a", "b", Effect.PODS_RESTART),
        ("StatefulSet", "spec.volumeClaimTemplates[0].spec.storageClassName", "a", "b", Effect.DATA_LOST),
        (REVISED, "spec.volumeClaimTemplates[0].spec.storageClassName", "a", "b", Effect.PODS_RESTART),
        ("StatefulSet", "metadata.labels.a", "b", "c", Effect.NOTHING),
        ("StatefulSet", "spec.replicas", 1, 2, Effect.CONFIG_RELOAD),
        ("PersistentVolumeClaim", "spec.resources.requests.storage", "7Gi", "1Ti", Effect.CONFIG_RELOAD),
        ("PersistentVolumeClaim", "spec.resources.requests.storage", "1Ti", "7Gi", Effect.DATA_LOST),
        ("PersistentVolumeClaim", "spec.storageClassName", "a", "b", Effect.DATA_LOST),
        ("Namespace", "metadata.labels.pod-security.kubernetes.io/enforce", "a", "b", Effect.CONFIG_RELOAD),
        ("Namespace", "", {}, ABSENT, Effect.DATA_LOST),
        ("NetworkPolicy", "spec.egress", ABSENT, [], Effect.CONFIG_RELOAD),
        ("ValidatingAdmissionPolicy", "", ABSENT, {}, Effect.CONFIG_RELOAD),
        ("PodMonitor", "spec.podMetricsEndpoints[http].interval", "15s", "30s", Effect.NOTHING),
        ("SomeNewKind", "spec.a", 1, 2, Effect.PODS_RESTART),
        ("SomeNewKind", "", ABSENT, {}, Effect.CONFIG_RELOAD),
        ("SomeNewKind", "", {}, ABSENT, Effect.PODS_RESTART),
    ],
)  # fmt: skip
def test_effect_of_a_field(kind: str, path: str, before: Any, after: Any, effect: Effect) -> None:
    assert judge(RULES, kind, path, before=before, after=after).effect is effect


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The path of every field, as a difference would name it."""
    opened = opened_text(value) if isinstance(value, str) else None
    if isinstance(value, dict):
        for key, held in value.items():
            yield from leaves(held, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[x]")
    elif opened is not None:
        for inner in leaves(opened):
            yield f"{path}>{inner}"
    else:
        yield path


@pytest.mark.parametrize("tier", [*sorted(catalog().tiers), PLATFORM])
def test_every_field_that_we_render_is_known_to_a_rule(tier: str) -> None:
    known: set[tuple[str, str]] = set()
    pack = example_pack()
    ours = pack.platform_objects() if tier == PLATFORM else pack.tier_objects(tier)
    for made in (*ours, *(() if tier == PLATFORM else rendered(example_plan(tier)))):
        empty = {"kind": made["kind"], "metadata": made["metadata"], "spec": {"versions": _bare(made)}}
        for part in parts(empty, made, kind=made["kind"], reach=Reach.PUBLISH):
            known |= {(part.kind, path) for path in ("", *leaves(part.after)) if part.kind != VALUES or path}
    ways = (("a", "b"), (ABSENT, "b"), ("a", ABSENT))
    unknown = [
        (kind, path)
        for kind, path in sorted(known)
        if not path.startswith(("apiVersion", "kind", "metadata.name"))
        for before, after in (ways if path else ways[1:])  # an object as a whole comes or goes
        if judge(RULES, kind, path, before=before, after=after).reason.startswith("no rule")
    ]
    assert unknown == []
    assert len(known) > 300


def _bare(made: dict[str, Any]) -> list[dict[str, Any]]:
    """The versions of a template with nothing in them, so that each is compared and not only counted."""
    versions = made.get("spec", {}).get("versions", [])
    return [{"version": version["version"]} for version in versions]
