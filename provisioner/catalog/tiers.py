"""What the options of a tier must keep to among themselves, and what its stack must hold. Pure; called by `checks`.

Each rule is one that the Platform, the chart or Kubernetes enforces late, or that nothing enforces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.component import Component
from provisioner.catalog.tier import (
    Autoscaling,
    ControlPlane,
    Isolation,
    NodeMode,
    NodePools,
    Routing,
    Scheduling,
    Tenancy,
    Tier,
)
from provisioner.domain.finding import Finding, unknown_name_hint

Rule = tuple[Callable[[Tier], bool], str, str, str]
"""Whether a tier breaks it, the field at fault, what is wrong, what to do."""


def _is_private(tier: Tier) -> bool:
    return tier.node_mode is NodeMode.PRIVATE


def _is_dra(tier: Tier) -> bool:
    return tier.scheduling is Scheduling.DRA


OPTIONS: tuple[Rule, ...] = (
    (
        lambda tier: tier.example.get("tier") != tier.name,
        "example.tier",
        "the example asks for another tier",
        "name this one: a copied tier brings the example of the one that it was",
    ),
    (
        lambda tier: _is_private(tier) and tier.routing is Routing.IMPORTED_GATEWAY,
        "routing",
        "`imported-gateway` needs sync, which private nodes switch off",
        "use `tenant-gateway`, or nodeMode `shared`",
    ),
    (
        lambda tier: not _is_private(tier) and tier.routing is Routing.LISTENER_SET,
        "routing",
        "`listener-set` is not synced from shared nodes",
        "use `imported-gateway`",
    ),
    (
        lambda tier: not _is_private(tier) and tier.isolation is Isolation.KUBEVIRT,
        "isolation",
        "`kubevirt` needs nodes of the tenant's own",
        "set nodeMode `private`",
    ),
    (
        lambda tier: not _is_private(tier) and tier.node_pools is NodePools.DYNAMIC,
        "nodePools",
        "`dynamic` needs nodes of the tenant's own",
        "set nodeMode `private`, or leave nodePools out",
    ),
    (
        lambda tier: _is_dra(tier) and tier.node_pools is NodePools.DYNAMIC,
        "nodePools",
        "pods that only claim devices do not make `dynamic` pools grow",
        "use `static` with scheduling `dra`",
    ),
    (
        lambda tier: _is_dra(tier) and tier.accelerator.device_class is None,
        "accelerator.deviceClass",
        "scheduling `dra` claims devices of a class, and none is named",
        "name one, for example `gpu.nvidia.com`",
    ),
    (
        lambda tier: tier.accelerator.partition is not None and not _is_dra(tier),
        "accelerator.partition",
        "parts of a GPU are claimed with scheduling `dra`",
        "set scheduling `dra`, or remove the partition",
    ),
    (
        lambda tier: _is_private(tier) and tier.tenancy is Tenancy.CUSTOMER and tier.node_pools is NodePools.STATIC,
        "nodePools",
        "`static` pools would have to know a customer's endpoints before they exist",
        "use `dynamic` with tenancy `customer`",
    ),
    (
        lambda tier: (
            bool(tier.policies) and ("runtime-class" in tier.policies) is not (tier.isolation is Isolation.VNODE)
        ),
        "policies",
        "`runtime-class` goes with isolation `vnode`: it keeps pods in that sandbox, and without one none could run",
        "add it with isolation `vnode`, and remove it otherwise",
    ),
    (
        lambda tier: tier.tenancy is Tenancy.POOL and tier.admits_custom_code,
        "tenancy",
        "a `pool` is shared by customers, and this isolation lets them bring code",
        "use tenancy `endpoint` or `customer`",
    ),
    (
        lambda tier: not _is_private(tier) and any(signal.startswith("gpu-") for signal in tier.signals),
        "signals",
        "nobody measures GPUs of shared nodes in a tenant cluster",
        "use what the engine publishes, such as `queue-depth`",
    ),
    (
        lambda tier: tier.multi_node and not _is_private(tier),
        "multiNode",
        "replicas that span nodes need nodes of the tenant's own",
        "set nodeMode `private`",
    ),
)
"""Options that exclude each other."""


def check_tier(tier: Tier, components: Mapping[str, Component]) -> Iterator[Finding]:
    """Findings about a tier alone: options that exclude each other, a control plane that is none for production, a
    stack that lacks something."""
    yield from _check_options(tier)
    yield from _check_control_plane(tier.control_plane.dev, "dev")
    yield from _check_production(tier.control_plane.prod)
    yield from _check_stack(tier, components)


def check_component(component: Component, catalog: Catalog) -> Iterator[Finding]:
    """Findings about a component's names: its chart, what it excludes."""
    if component.chart not in catalog.versions.charts:
        yield _finding("UnknownChart", "chart", f"unknown `{component.chart}`", "add its version to versions.yaml")
    for position, name in enumerate(component.excludes):
        if name not in catalog.components:
            hint = unknown_name_hint(name, catalog.components)
            yield _finding("UnknownComponent", f"excludes[{position}]", f"unknown `{name}`", hint)
    known = {provided for other in catalog.components.values() for provided in other.provides}
    for position, name in enumerate(component.needs):
        if name not in known:
            hint = "name something that a component provides"
            yield _finding("UnknownNeed", f"needs[{position}]", f"no component provides `{name}`", hint)


def _check_options(tier: Tier) -> Iterator[Finding]:
    for is_broken, field, message, hint in OPTIONS:
        if is_broken(tier):
            yield _finding("OptionsConflict", field, message, hint)


def _check_control_plane(plane: ControlPlane, profile: str) -> Iterator[Finding]:
    field = f"controlPlane.{profile}"
    if plane.replicas > 1 and plane.backing_store == "sqlite":
        message = f"SQLite is one file of one replica, found {plane.replicas} replicas"
        yield _finding("NotHighlyAvailable", f"{field}.backingStore", message, "use `embedded-etcd`")
    if plane.backing_store == "embedded-etcd" and plane.replicas % 2 == 0:
        message = f"an even number of etcd members survives no more than one less, found {plane.replicas}"
        yield _finding("NotHighlyAvailable", f"{field}.replicas", message, "use 3 or 5")


def _check_production(plane: ControlPlane) -> Iterator[Finding]:
    yield from _check_control_plane(plane, "prod")
    if plane.replicas < 2:
        message = f"production needs two replicas at least, found {plane.replicas}"
        yield _finding("NotHighlyAvailable", "controlPlane.prod.replicas", message, "use 3")
    if plane.replicas < 2 and plane.backing_store == "sqlite":
        message = "production keeps its state in more than a file"
        yield _finding("NotHighlyAvailable", "controlPlane.prod.backingStore", message, "use `embedded-etcd`")
    if plane.backups is None:
        message = "production without backups cannot be restored"
        yield _finding("BackupsMissing", "controlPlane.prod", message, "add `backups` with schedule and retentionDays")


def _check_stack(tier: Tier, components: Mapping[str, Component]) -> Iterator[Finding]:
    provided: set[str] = set()
    standing: list[Component] = []
    for position, name in enumerate(tier.stack):
        field = f"stack[{position}]"
        component = components.get(name)
        if component is None:
            yield _finding("UnknownComponent", field, f"unknown `{name}`", unknown_name_hint(name, components))
            continue
        for need in component.needs:
            if need not in provided:
                message = f"`{name}` needs `{need}`, which nothing before it provides"
                yield _finding("ComponentNeedMissing", field, message, _providers_hint(need, components))
        for other in standing:
            if name in other.excludes or other.name in component.excludes or name == other.name:
                message = f"`{name}` and `{other.name}` do the same thing"
                yield _finding("ComponentTwice", field, message, "keep one of them")
        standing.append(component)
        provided |= set(component.provides)
    # An empty stack leaves it all to others, and an unknown component might bring what is missing.
    if standing and len(standing) == len(tier.stack):
        yield from _check_needs(tier, provided)
    if (
        tier.node_mode is NodeMode.PRIVATE
        and "cni" in provided
        and not any(c.enforces_network_policy for c in standing)
    ):
        message = "no CNI of the stack enforces network policies"
        yield _finding("NetworkPolicyNotEnforced", "stack", message, "use one that does, for example `cilium`")


def _check_needs(tier: Tier, provided: set[str]) -> Iterator[Finding]:
    """What the runtime's manifests use must come from the stack."""
    private = tier.node_mode is NodeMode.PRIVATE
    needs = {
        "cni": private,
        "Certificate.cert-manager.io": private and tier.routing is not Routing.IMPORTED_GATEWAY,
        "Gateway.gateway.networking.k8s.io": private and tier.routing in (Routing.TENANT_GATEWAY, Routing.LISTENER_SET),
        "LeaderWorkerSet.leaderworkerset.x-k8s.io": tier.multi_node,
        "PodMonitor.monitoring.coreos.com": True,
        "ScaledObject.keda.sh": tier.autoscaling is Autoscaling.KEDA,
        "device-plugin": private and tier.scheduling is Scheduling.DEVICE_PLUGIN,
        "dra-driver": private and tier.scheduling is Scheduling.DRA,
        "external-metrics": tier.autoscaling is Autoscaling.HPA,
        "runtimeclass/vnode": private and tier.isolation is Isolation.VNODE,
    }
    for need, wanted in needs.items():
        if wanted and need not in provided:
            message = f"the tier's options need `{need}`, which no component provides"
            yield _finding("ComponentNeedMissing", "stack", message, f"add a component that provides `{need}`")


def _providers_hint(need: str, components: Mapping[str, Component]) -> str:
    names = sorted(name for name, component in components.items() if need in component.provides)
    return f"put one of these before it: {', '.join(names)}"


def _finding(reason: str, field: str, message: str, hint: str | None) -> Finding:
    return Finding(reason=reason, message=f"reading {field}: {message}", field=field, hint=hint)
