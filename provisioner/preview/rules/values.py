"""What a change of a tenant cluster's values (vcluster.yaml) does to it.

Sources: [V] vCluster's values schema, validation code and backing-store documentation (0.36 and 0.37); [P] the
Platform's documentation of Auto Nodes and of its Argo CD integration; [K] Karpenter's documentation of drift, which
tells fields that make nodes drift from those that only steer. Without a mark: the worst that is plausible.
"""

from __future__ import annotations

from provisioner.preview.effect import Effect, Rule, Way, rule

VALUES = "vcluster.yaml"
"""Stands as kind for what is set in a tenant cluster's values."""

DRIFT = "nodes whose pool has other types, labels, taints or life times are replaced"
STEERS = "it steers which nodes come and go later; nodes that stand are kept"
_CONTROL_PLANE = "the tenant's control plane restarts; replicas go on serving"
_POOL = r"privateNodes\.autoNodes(\[[^]]*\](\.(static|dynamic)(\[[^]]*\])?)?)?$"
_DELIVERED = r"deploy(\.argoCD(\.applications)?|\.stacks)?(\[[^]]*\](\.name)?)?$"

VALUES_RULES: tuple[Rule, ...] = (
    # [V] `enabled` and `vpn` are immutable.
    rule(VALUES, r"privateNodes$", Effect.TENANT_RECREATED, "nodes are private, or not, from the start"),
    rule(VALUES, r"privateNodes\.(enabled|vpn)", Effect.TENANT_RECREATED, "it is set only when a cluster is made"),
    # [P] static pools keep `quantity` nodes; a pool's provider cannot be changed.
    rule(VALUES, r"privateNodes\.autoNodes.*\.quantity", Effect.NOTHING, "more nodes join", way=Way.RAISED),
    rule(VALUES, r"privateNodes\.autoNodes.*\.quantity", Effect.NODES_REPLACED, "nodes are drained and removed"),
    rule(
        VALUES, r"privateNodes\.autoNodes(\[[^]]*\])?\.provider$", Effect.TENANT_RECREATED, "a pool keeps its provider"
    ),
    rule(VALUES, _POOL, Effect.NOTHING, "one more node pool", way=Way.ADDED),
    rule(VALUES, _POOL, Effect.NODES_REPLACED, "the pool's nodes are drained and removed", way=Way.REMOVED),
    # [K] limits, weight and disruption are behaviour; everything else of a pool is compared with its nodes.
    rule(VALUES, r"privateNodes\.autoNodes.*\.(limits|weight|disruption)\b", Effect.CONFIG_RELOAD, STEERS),
    rule(VALUES, r"privateNodes\.autoNodes", Effect.NODES_REPLACED, DRIFT),
    rule(VALUES, r"privateNodes\.autoUpgrade", Effect.CONFIG_RELOAD, "it steers later upgrades of nodes"),
    rule(VALUES, r"privateNodes", Effect.NODES_REPLACED, "a node reads it when it joins"),
    # [V] the only migration is from a deployed etcd to an embedded one.
    rule(VALUES, r"controlPlane$", Effect.DATA_LOST, "its store may be another one, which starts empty"),
    rule(VALUES, r"controlPlane\.backingStore", Effect.DATA_LOST, "another store starts empty: nothing is migrated"),
    rule(VALUES, r"controlPlane\.statefulSet\.persistence", Effect.DATA_LOST, "volumes cannot change in place"),
    # [V] `privateNodes.autoUpgrade`: nodes follow the control plane's version one after the other.
    rule(VALUES, r"controlPlane\.distro(\.k8s(\.(version|image.*))?)?$", Effect.NODES_REPLACED, "nodes are upgraded"),
    rule(VALUES, r"controlPlane", Effect.CONFIG_RELOAD, _CONTROL_PLANE),
    rule(VALUES, r"(networking\.)?(podCIDR|serviceCIDR)", Effect.TENANT_RECREATED, "addresses are fixed at the start"),
    # [P] switching the integration off, or taking an Application out, deletes what was delivered.
    rule(VALUES, _DELIVERED, Effect.CONFIG_RELOAD, "Argo CD delivers more", way=Way.ADDED),
    rule(VALUES, _DELIVERED, Effect.DATA_LOST, "all that it delivered is deleted, volumes too"),
    rule(VALUES, r"deploy\.(argoCD|stacks)", Effect.PODS_RESTART, "Argo CD delivers other manifests"),
    rule(VALUES, r"integrations(\.argoCD)?(\.enabled)?$", Effect.CONFIG_RELOAD, _CONTROL_PLANE, way=Way.ADDED),
    rule(VALUES, r"integrations(\.argoCD)?(\.enabled)?$", Effect.DATA_LOST, "all that Argo CD delivered is deleted"),
    rule(VALUES, r"integrations\.argoCD", Effect.DATA_LOST, "the old Argo CD deletes what it delivered"),
    rule(VALUES, r"deploy\.cni", Effect.NODES_REPLACED, "pods keep the old network until their node is made anew"),
    # [V] both act on their own clock.
    rule(VALUES, r"deletion", Effect.DATA_LOST, "tenant clusters may be deleted without being asked"),
    rule(VALUES, r"sleep", Effect.PODS_RESTART, "tenant clusters may be put to sleep"),
    rule(
        VALUES,
        r"sync(\.toHost(\.(pods|persistentVolumeClaims|resourceClaim).*)?)?$",
        Effect.PODS_RESTART,
        "pods are synced anew",
    ),
    rule(VALUES, r"sync\.", Effect.CONFIG_RELOAD, _CONTROL_PLANE),
    rule(
        VALUES,
        r"(policies|rbac|telemetry|logging|exportKubeConfig|snapshots|platform)\b",
        Effect.CONFIG_RELOAD,
        _CONTROL_PLANE,
    ),
    rule(VALUES, r"(integrations|networking|deploy)\.", Effect.CONFIG_RELOAD, _CONTROL_PLANE),
)
