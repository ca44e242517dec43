"""What private nodes switch off, refuse or leave unprotected in a tenant cluster's values.

With private nodes vCluster starts no syncer at all: pods run on nodes of the tenant's own, and nothing of them passes
the control plane cluster (vCluster, start-up code of its controllers; documentation on private nodes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.tenant import brings_nodes, deployed_words, is_on, objects_of, only_tenant, shares_nodes
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, is_known, literal, look, mapping
from provisioner.lint.world import Object, TenantValues, World

_ON_BY_DEFAULT = frozenset(
    ("toHost", key)
    for key in ("services", "endpoints", "endpointSlices", "persistentVolumeClaims", "configMaps", "secrets", "pods")
) | {("fromHost", "events")}
_REFUSED: Mapping[FieldPath, str] = {
    ("integrations", "metricsServer"): "set `deploy.metricsServer.enabled: true`, or install it in the tenant cluster",
    ("integrations", "certManager"): "install cert-manager in the tenant cluster",
    ("integrations", "externalSecrets"): "install External Secrets in the tenant cluster",
    ("integrations", "istio"): "install the mesh in the tenant cluster",
    ("integrations", "kubeVirt"): "install KubeVirt in the tenant cluster",
    ("controlPlane", "hostPathMapper"): "remove it; pods run on nodes of the tenant's own",
    ("sync", "toHost", "namespaces"): "remove it; with private nodes nothing is synced",
}
_CNIS = (
    "calico",
    "cilium",
    "canal",
    "antrea",
    "kube-router",
    "ovn",
    "tigera",
    "weave",
    "network-policies",
    "-cni",
    "cni-",
)


def _private(world: World) -> Iterator[TenantValues]:
    return (tenant for tenant in world.tenants if brings_nodes(tenant))


@rule("sync-without-effect", Severity.ERROR)
def sync_without_effect(world: World) -> Iterator[Hit]:
    """Something is synced with the control plane cluster although the tenant cluster has private nodes.

    With `privateNodes.enabled` no syncer is started, so imported Gateways, exported routes, device classes,
    resource claims, ingresses, secrets and custom resources never arrive. Nothing says so: the values are accepted.
    Bring what is needed into the tenant cluster itself, such as a Gateway of its own or the vendor's DRA driver.
    """
    for tenant in _private(world):
        for path in _synced(tenant):
            message = f"syncing with private nodes: `{dotted(path)}` does nothing"
            fix = "remove it, and install what it should bring (a Gateway, classes, drivers) in the tenant cluster"
            yield Hit(at=tenant, path=path, message=message, fix=fix)


def _synced(tenant: TenantValues) -> Iterator[FieldPath]:
    for side in ("toHost", "fromHost"):
        for key, value in mapping(tenant.value, "sync", side).items():
            path = ("sync", side, key)
            if path in _REFUSED or (side, key) in _ON_BY_DEFAULT:
                continue
            if is_on(value, "enabled"):
                yield path
            else:  # the kinds of `gatewayApi` and of `customResources` have switches of their own
                yield from ((*path, part) for part, entry in mapping(value).items() if is_on(entry, "enabled"))


@rule("runtime-class-without-effect", Severity.ERROR)
def runtime_class_without_effect(world: World) -> Iterator[Hit]:
    """Pods should get a runtime class by sync although the tenant cluster has private nodes.

    `sync.toHost.pods.runtimeClassName` is written into pods on their way to the control plane cluster. With private
    nodes they never go there, so they run without it: with vNode that means without the isolation that was asked
    for.
    """
    for tenant in _private(world):
        path = ("sync", "toHost", "pods", "runtimeClassName")
        if literal(tenant.value, *path):
            message = f"isolating pods: the runtime class is not set on private nodes: `{literal(tenant.value, *path)}`"
            fix = "set `runtimeClassName` in the pods themselves and install the runtime in the tenant cluster"
            yield Hit(at=tenant, path=path, message=message, fix=fix)


@rule("pod-sync-without-effect", Severity.WARNING)
def pod_sync_without_effect(world: World) -> Iterator[Hit]:
    """Synced pods should be changed on their way although the tenant cluster has private nodes.

    Enforced tolerations, image translation, priority classes, patches and hybrid scheduling work on pods that are
    copied to the control plane cluster. With private nodes no pod is.
    """
    keys = ("enforceTolerations", "translateImage", "priorityClassName", "patches")
    for tenant in _private(world):
        pods = mapping(tenant.value, "sync", "toHost", "pods")
        found = [key for key in keys if pods.get(key)] + ["hybridScheduling"] * is_on(
            pods, "hybridScheduling", "enabled"
        )
        for key in found:
            path = ("sync", "toHost", "pods", key)
            message = f"changing synced pods: with private nodes no pod is synced: `{key}`"
            yield Hit(
                at=tenant,
                path=path,
                message=message,
                fix="set it in the workloads, or by a policy in the tenant cluster",
            )


@rule("refused-with-private-nodes", Severity.ERROR)
def refused_with_private_nodes(world: World) -> Iterator[Hit]:
    """An integration or feature is on that vCluster refuses with private nodes.

    The control plane's validation ends with `… is not supported in private nodes mode` for the integrations
    metricsServer, certManager, externalSecrets, istio and kubeVirt, for embedded CoreDNS, the host path mapper and
    namespace sync. The schema says nothing, so it shows only as a control plane that crashes.
    """
    for tenant in _private(world):
        for path, fix in _REFUSED.items():
            if is_on(tenant.value, *path, "enabled"):
                message = f"starting control plane: not supported with private nodes: `{dotted(path)}`"
                yield Hit(at=tenant, path=(*path, "enabled"), message=message, fix=fix)
        if is_on(tenant.value, "controlPlane", "coredns", "embedded"):
            message = "starting control plane: embedded CoreDNS is not supported with private nodes"
            path = ("controlPlane", "coredns", "embedded")
            yield Hit(at=tenant, path=path, message=message, fix="remove `embedded`")


@rule("sleep-with-private-nodes", Severity.WARNING)
def sleep_with_private_nodes(world: World) -> Iterator[Hit]:
    """A tenant cluster with private nodes should sleep.

    Sleep scales down what is synced to the control plane cluster. With private nodes that is nothing, so the nodes,
    and what they cost, stay.
    """
    for tenant in _private(world):
        auto = mapping(tenant.value, "sleep", "auto")
        if auto.get("afterInactivity") or auto.get("schedule"):
            message = "sleeping: not available with private nodes"
            fix = "remove `sleep`; scale the workloads to zero and use dynamic pools that shrink"
            yield Hit(at=tenant, path=("sleep", "auto"), message=message, fix=fix)


@rule("auto-nodes-without-private-nodes", Severity.ERROR)
def auto_nodes_without_private_nodes(world: World) -> Iterator[Hit]:
    """Node pools are described, but private nodes are not switched on.

    `privateNodes.enabled` is false by default and can only be set at creation; without it every other key below
    `privateNodes` does nothing and pods run on the control plane cluster's nodes.
    """
    for tenant in world.tenants:
        for key in ("autoNodes", "vpn", "defaultProfile"):
            asked = look(tenant.value, "privateNodes", key)
            if shares_nodes(tenant) and asked and (key != "vpn" or is_on(asked, "enabled")):
                message = f"adding nodes: `privateNodes.enabled` is not true, so nothing reads: `privateNodes.{key}`"
                fix = "set `privateNodes: {enabled: true}`; it cannot be changed after creation"
                yield Hit(at=tenant, path=("privateNodes", key), message=message, fix=fix)
                break


@rule("needs-private-nodes", Severity.ERROR)
def needs_private_nodes(world: World) -> Iterator[Hit]:
    """A key is set that vCluster accepts with private nodes only.

    `controlPlane.endpoint` and `deploy.csi.kubeVirt` without private nodes end the start of the control plane with
    `… only supported in private nodes mode`.
    """
    for tenant in world.tenants:
        if not shares_nodes(tenant):
            continue
        for path, asked in (
            (("controlPlane", "endpoint"), bool(look(tenant.value, "controlPlane", "endpoint"))),
            (("deploy", "csi", "kubeVirt"), is_on(tenant.value, "deploy", "csi", "kubeVirt", "enabled")),
        ):
            if asked:
                message = f"starting control plane: only supported with private nodes: `{dotted(path)}`"
                yield Hit(at=tenant, path=path, message=message, fix="remove it, or set `privateNodes.enabled: true`")


@rule("policies-nobody-enforces", Severity.ERROR)
def policies_nobody_enforces(world: World) -> Iterator[Hit]:
    """Network policies are put into a tenant cluster whose network plug-in does not enforce any.

    On private nodes the default is Flannel (`deploy.cni.flannel.enabled: true`). It stores NetworkPolicies and
    enforces none, so a default deny silently allows everything. Switch it off and install Calico or Cilium in the
    tenant cluster; what the control plane cluster's network plug-in enforces does not matter to private nodes.
    """
    for tenant, path in _on_flannel(world):
        found = _policy_for(world, tenant)
        if found is not None:
            message = f"enforcing network policies: Flannel enforces none of them, such as: `{found.title}`"
            yield Hit(at=tenant, path=path, message=message, fix=_USE_ANOTHER)


_USE_ANOTHER = "set `deploy.cni.flannel.enabled: false` and install Calico or Cilium in the tenant cluster first"


def _on_flannel(world: World) -> Iterator[tuple[TenantValues, FieldPath]]:
    """Tenant clusters on private nodes whose network plug-in is Flannel, and where that is said."""
    for tenant in _private(world):
        flannel = look(tenant.value, "deploy", "cni", "flannel", "enabled")
        if flannel is not False and not has_hole(flannel) and not any(word in deployed_words(tenant) for word in _CNIS):
            yield tenant, ("deploy", "cni", "flannel") if is_known(flannel) else ("privateNodes",)


def _policy_for(world: World, tenant: TenantValues) -> Object | None:
    """A NetworkPolicy that is put into the tenant cluster."""
    found = next((value for value in objects_of(world, tenant) if value.kind == "NetworkPolicy"), None)
    return found or (next(world.of_kind("NetworkPolicy"), None) if tenant is only_tenant(world) else None)


@rule("policies-for-control-plane-only", Severity.WARNING)
def policies_for_control_plane_only(world: World) -> Iterator[Hit]:
    """Network policies are switched on for a tenant cluster with private nodes, and nothing guards its workloads.

    `policies.networkPolicy` makes policies in the control plane cluster, for the control plane's pods. Workloads on
    private nodes need policies inside the tenant cluster and a network plug-in there that enforces them, which Flannel,
    the default, does not.
    """
    for tenant, _ in _on_flannel(world):
        if is_on(tenant.value, "policies", "networkPolicy", "enabled") and _policy_for(world, tenant) is None:
            message = "restricting traffic: nothing enforces policies for workloads on private nodes: `flannel`"
            yield Hit(at=tenant, path=("policies", "networkPolicy"), message=message, fix=_USE_ANOTHER)


@rule("workload-policy-without-effect", Severity.ERROR)
def workload_policy_without_effect(world: World) -> Iterator[Hit]:
    """Network rules for workloads stand in `policies.networkPolicy` of a tenant cluster with private nodes.

    With private nodes the chart renders policies for the control plane's pods only (`vc-cp-*`); `workload` rules are
    skipped, since the workloads are not in that cluster. Apply NetworkPolicies inside the tenant cluster.
    """
    for tenant in _private(world):
        workload = mapping(tenant.value, "policies", "networkPolicy", "workload")
        if is_on(tenant.value, "policies", "networkPolicy", "enabled") and any(workload.values()):
            path = ("policies", "networkPolicy", "workload")
            message = "restricting workloads: with private nodes the chart renders no workload policies"
            fix = "put NetworkPolicies into the template's `objects` or the first Application"
            yield Hit(at=tenant, path=path, message=message, fix=fix)


@rule("quota-for-control-plane-only", Severity.WARNING)
def quota_for_control_plane_only(world: World) -> Iterator[Hit]:
    """A quota or limit range should bound a tenant cluster that has private nodes.

    `policies.resourceQuota` and `policies.limitRange` are created in the control plane cluster's namespace. With
    private nodes only the control plane's own pods run there: GPUs, CPU and memory of the tenant stay unbounded.
    Bound private nodes by the Project's `nodeclaims`, `allowedNodeTypes`, the provider's `maxCapacity` and the
    pools' own sizes.
    """
    for tenant in _private(world):
        for path in (("policies", "resourceQuota"), ("policies", "limitRange")):
            policy = mapping(tenant.value, *path)
            if policy.get("enabled") is not False and _bounds(policy):
                message = f"bounding tenant cluster: it binds the control plane's pods only: `{dotted(path)}`"
                fix = "use the Project's `nodeclaims` quota, or a ResourceQuota inside the tenant cluster"
                yield Hit(at=tenant, path=path, message=message, fix=fix)


def _bounds(policy: Mapping[str, Any]) -> bool:
    return any(policy.get(key) for key in ("quota", "default", "defaultRequest", "min", "max")) or is_on(
        policy, "enabled"
    )


@rule("runtime-nobody-installs", Severity.WARNING)
def runtime_nobody_installs(world: World) -> Iterator[Hit]:
    """Pods ask for vNode in a tenant cluster with private nodes where nothing installs it.

    On private nodes vNode is a component of the tenant cluster: without its RuntimeClass the API server refuses the
    pods.
    """
    if not world.tenants or any(not brings_nodes(tenant) for tenant in world.tenants):
        return
    installed = {value.name for value in world.of_kind("RuntimeClass")}
    told = "".join(deployed_words(tenant) for tenant in world.tenants)
    told += repr([value.name for value in world.of_kind("Application", "ArgoCDApplication", "StackInstance")]).lower()
    told += repr([value.value for value in world.of_kind("ArgoCDApplicationTemplate")]).lower()
    for pod in world.pods:
        wanted = literal(pod.spec, "runtimeClassName") or ""
        if wanted.startswith("vnode") and wanted not in installed and "vnode" not in told:
            message = f"isolating pods: nothing here installs the runtime class: `{wanted}`"
            fix = "install vNode in the tenant cluster (an Application or Stack task) before the workload"
            yield Hit(at=pod.owner, path=pod.at("runtimeClassName"), message=message, fix=fix)


@rule("vpn-between-nodes-alone", Severity.WARNING)
def vpn_between_nodes_alone(world: World) -> Iterator[Hit]:
    """The VPN should connect nodes with each other, but is not switched on.

    `privateNodes.vpn.nodeToNode` is part of the VPN: without `vpn.enabled` nothing starts it. Both can only be set at
    creation.
    """
    for tenant in world.tenants:
        vpn = mapping(tenant.value, "privateNodes", "vpn")
        if is_on(vpn, "nodeToNode", "enabled") and not is_on(vpn, "enabled") and not has_hole(vpn.get("enabled")):
            message = "connecting nodes: `nodeToNode` does nothing without `vpn.enabled`"
            yield Hit(
                at=tenant, path=("privateNodes", "vpn"), message=message, fix="set `privateNodes.vpn.enabled: true`"
            )
