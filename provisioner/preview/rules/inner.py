"""What a change of any other object inside of a tenant cluster does to the endpoints there.

Source: the documentation of each kind's controller, for what it does to pods and connections that are there already.
"""

from __future__ import annotations

from provisioner.preview.effect import Effect, Rule, Way, rule

_NEEDED = "Secret ConfigMap ServiceAccount ResourceClaimTemplate DeviceClass RuntimeClass"
_ADMITTING = (
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy LimitRange ResourceQuota "
    "LocalQueue ClusterQueue ResourceFlavor WorkloadPriorityClass Topology PodDisruptionBudget PriorityClass"
)
_ROUTING = (
    "Gateway GatewayClass HTTPRoute GRPCRoute ReferenceGrant Ingress IngressClass Service EndpointSlice "
    "BackendTLSPolicy ListenerSet InferencePool EnvoyProxy ClientTrafficPolicy BackendTrafficPolicy SecurityPolicy"
)
_RIGHTS = "ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding Lease"

INNER_RULES: tuple[Rule, ...] = (
    rule("Namespace", r"$", Effect.NOTHING, "a new namespace", way=Way.ADDED),
    rule("Namespace", r"$", Effect.DATA_LOST, "everything in the namespace goes with it", way=Way.REMOVED),
    rule(
        "Namespace", r"metadata\.labels\.pod-security", Effect.CONFIG_RELOAD, "pods made from now on are judged by it"
    ),
    rule("Namespace", r"metadata\.labels", Effect.CONFIG_RELOAD, "policies that select the namespace by it follow"),
    rule(
        _ROUTING, r"metadata\.annotations", Effect.CONFIG_RELOAD, "controllers read it: traffic may be routed otherwise"
    ),
    rule("*", r"metadata\.(labels|annotations)", Effect.NOTHING, "words and labels only"),
    rule(_NEEDED, r"$", Effect.PODS_RESTART, "pods that need it do not start any more", way=Way.REMOVED),
    rule(
        "Secret ConfigMap ExternalSecret ProjectSecret SecretStore",
        r"",
        Effect.CONFIG_RELOAD,
        "files in running pods change, variables do not",
    ),
    rule(
        _ADMITTING, r"", Effect.CONFIG_RELOAD, "what is asked for from now on is judged by it; pods that run are kept"
    ),
    rule(
        "NetworkPolicy CiliumNetworkPolicy CiliumClusterwideNetworkPolicy",
        r"",
        Effect.CONFIG_RELOAD,
        "open connections are judged by it too",
    ),
    rule("Gateway GatewayClass", r"$", Effect.PODS_RESTART, "nothing reaches the replicas any more", way=Way.REMOVED),
    rule(_ROUTING, r"", Effect.CONFIG_RELOAD, "traffic is routed otherwise"),
    rule("Certificate Issuer ClusterIssuer", r"", Effect.CONFIG_RELOAD, "certificates are issued anew"),
    rule(_RIGHTS, r"", Effect.CONFIG_RELOAD, "what pods may do changes at once"),
    rule(
        "ScaledObject HorizontalPodAutoscaler TriggerAuthentication",
        r"",
        Effect.CONFIG_RELOAD,
        "replicas are started or stopped",
    ),
    rule("PodMonitor ServiceMonitor PrometheusRule", r"", Effect.NOTHING, "only what is measured changes"),
    rule(
        "DeviceClass ResourceClaimTemplate RuntimeClass StorageClass",
        r"",
        Effect.CONFIG_RELOAD,
        "pods that start from now on get it",
    ),
    rule("CustomResourceDefinition", r"$", Effect.DATA_LOST, "every object of the kind goes with it", way=Way.REMOVED),
    rule("CustomResourceDefinition Namespace", r"", Effect.CONFIG_RELOAD, "the API server serves another form"),
    rule("*", r"$", Effect.CONFIG_RELOAD, "no rule knows the kind; nothing that runs needs it yet", way=Way.ADDED),
)
