"""In which API group a resource is, for rules that name resources: RBAC and admission. No rules stand here.

From the Kubernetes API reference, and the groups of what model serving uses beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, frozenset[str]] = {
    name: frozenset(groups)
    for names, groups in (
        ("pods nodes", ["", "metrics.k8s.io"]),
        ("services configmaps secrets namespaces persistentvolumeclaims persistentvolumes", [""]),
        ("serviceaccounts replicationcontrollers resourcequotas limitranges endpoints", [""]),
        ("events", ["", "events.k8s.io"]),
        ("deployments statefulsets daemonsets replicasets controllerrevisions", ["apps"]),
        ("jobs cronjobs", ["batch"]),
        ("ingresses", ["networking.k8s.io", "extensions"]),
        ("networkpolicies", ["networking.k8s.io", "crd.projectcalico.org", "projectcalico.org"]),
        ("ingressclasses", ["networking.k8s.io"]),
        ("horizontalpodautoscalers", ["autoscaling"]),
        ("poddisruptionbudgets", ["policy"]),
        ("roles rolebindings clusterroles clusterrolebindings", ["rbac.authorization.k8s.io"]),
        ("leases", ["coordination.k8s.io"]),
        ("storageclasses volumeattachments csidrivers csinodes", ["storage.k8s.io"]),
        ("priorityclasses", ["scheduling.k8s.io"]),
        ("runtimeclasses", ["node.k8s.io"]),
        ("endpointslices", ["discovery.k8s.io"]),
        ("customresourcedefinitions", ["apiextensions.k8s.io"]),
        ("resourceclaims resourceclaimtemplates deviceclasses resourceslices", ["resource.k8s.io"]),
        ("httproutes grpcroutes gatewayclasses referencegrants", ["gateway.networking.k8s.io"]),
        ("leaderworkersets", ["leaderworkerset.x-k8s.io"]),
        ("scaledobjects scaledjobs", ["keda.sh"]),
        ("inferencepools", ["inference.networking.k8s.io", "inference.networking.x-k8s.io"]),
        ("inferenceobjectives inferencemodels", ["inference.networking.x-k8s.io", "inference.networking.k8s.io"]),
        ("inferenceservices servingruntimes clusterservingruntimes inferencegraphs", ["serving.kserve.io"]),
        ("rayclusters rayservices rayjobs", ["ray.io"]),
        ("clusterqueues localqueues resourceflavors workloads", ["kueue.x-k8s.io"]),
        ("virtualservices destinationrules", ["networking.istio.io"]),
        ("externalsecrets secretstores clustersecretstores", ["external-secrets.io"]),
    )
    for name in names.split()
}


def wrong_group(groups: list[str], resource: str) -> str | None:
    """Why no API group of a rule has the resource; None where one has it, or nobody knows the resource."""
    name = resource.partition("/")[0]
    if "*" in groups or name == "*":
        return None
    if name not in GROUPS:
        plural = name.lower() if name.lower() in GROUPS else f"{name.lower()}s"
        return f"resources are plural and lower case: `{plural}`" if plural in GROUPS else None
    if GROUPS[name] & set(groups):
        return None
    group = min(GROUPS[name])
    return f'`{name}` is in API group "{group}"'
