"""The kinds that workloads, core loops, Gateway API and KEDA name themselves, beside those in `kinds`."""

from __future__ import annotations

from typing import Final

from provisioner.platform.interface import Kind


def _gateway(kind: str, plural: str, *, namespaced: bool = True) -> Kind:
    return Kind("gateway.networking.k8s.io", "v1", kind, plural, namespaced)


SERVICE: Final = Kind("", "v1", "Service", "services")
ENDPOINTS: Final = Kind("", "v1", "Endpoints", "endpoints")
ENDPOINT_SLICE: Final = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
EVENT: Final = Kind("", "v1", "Event", "events")
VOLUME_CLAIM: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas")
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
DAEMON_SET: Final = Kind("apps", "v1", "DaemonSet", "daemonsets")
REPLICA_SET: Final = Kind("apps", "v1", "ReplicaSet", "replicasets")
CONTROLLER_REVISION: Final = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
JOB: Final = Kind("batch", "v1", "Job", "jobs")
SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts")
AUTOSCALER: Final = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
DISRUPTION_BUDGET: Final = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases")
SCALED_OBJECT: Final = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
GATEWAY_CLASS: Final = _gateway("GatewayClass", "gatewayclasses", namespaced=False)
GATEWAY: Final = _gateway("Gateway", "gateways")
HTTP_ROUTE: Final = _gateway("HTTPRoute", "httproutes")
REFERENCE_GRANT: Final = _gateway("ReferenceGrant", "referencegrants")

ADDRESS_ANNOTATION: Final = "embedded.tenantry.io/address"
"""Where a pod's process really listens, `127.0.0.1:<port>`: its pod IP is made up, as it is not routable either."""
LOG_ANNOTATION: Final = "embedded.tenantry.io/log"
"""The file with the output of a pod's process."""
