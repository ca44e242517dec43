"""The kinds that the lifecycle verbs read and write, and how one is found for a manifest.

Pure constants: vCluster Platform, Argo CD through the Platform, Gateway API and the few built-ins that are observed.
"""

from __future__ import annotations

from typing import Final

from provisioner.domain.errors import RejectedError
from provisioner.platform.interface import Kind, Manifest

PLATFORM_GROUP: Final = "management.loft.sh"
_GATEWAY: Final = "gateway.networking.k8s.io"

PROJECT: Final = Kind(PLATFORM_GROUP, "v1", "Project", "projects", namespaced=False)
VIRTUAL_CLUSTER_TEMPLATE: Final = Kind(
    PLATFORM_GROUP, "v1", "VirtualClusterTemplate", "virtualclustertemplates", namespaced=False
)
VIRTUAL_CLUSTER_INSTANCE: Final = Kind(PLATFORM_GROUP, "v1", "VirtualClusterInstance", "virtualclusterinstances")
NODE_PROVIDER: Final = Kind(PLATFORM_GROUP, "v1", "NodeProvider", "nodeproviders", namespaced=False)
NODE_PROFILE: Final = Kind(PLATFORM_GROUP, "v1", "NodeProfile", "nodeprofiles", namespaced=False)
NODE_CLAIM: Final = Kind(PLATFORM_GROUP, "v1", "NodeClaim", "nodeclaims")
NODE_ENVIRONMENT: Final = Kind(PLATFORM_GROUP, "v1", "NodeEnvironment", "nodeenvironments")
APPLICATION_TEMPLATE: Final = Kind(
    PLATFORM_GROUP, "v1", "ArgoCDApplicationTemplate", "argocdapplicationtemplates", namespaced=False
)
STACK_TEMPLATE: Final = Kind(PLATFORM_GROUP, "v1", "StackTemplate", "stacktemplates", namespaced=False)
ACCESS_KEY: Final = Kind(PLATFORM_GROUP, "v1", "OwnedAccessKey", "ownedaccesskeys", namespaced=False)
APPLICATION: Final = Kind(PLATFORM_GROUP, "v1", "ArgoCDApplication", "argocdapplications")

GATEWAY: Final = Kind(_GATEWAY, "v1", "Gateway", "gateways")
HTTP_ROUTE: Final = Kind(_GATEWAY, "v1", "HTTPRoute", "httproutes")

NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE: Final = Kind("", "v1", "Node", "nodes", namespaced=False)
POD: Final = Kind("", "v1", "Pod", "pods")
SERVICE: Final = Kind("", "v1", "Service", "services")
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet", "statefulsets")
LEADER_WORKER_SET: Final = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
SCALED_OBJECT: Final = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
SECRET: Final = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts")
DEVICE_CLASS: Final = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases")
RESOURCE_SLICE: Final = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
NETWORK_POLICY: Final = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
ADMISSION_POLICY: Final = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
ADMISSION_BINDING: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)

_PUBLISHED: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (
        PROJECT,
        VIRTUAL_CLUSTER_TEMPLATE,
        VIRTUAL_CLUSTER_INSTANCE,
        NODE_PROVIDER,
        NODE_PROFILE,
        APPLICATION_TEMPLATE,
        STACK_TEMPLATE,
        ACCESS_KEY,
        APPLICATION,
        GATEWAY,
        HTTP_ROUTE,
        NAMESPACE,
        SERVICE,
        SECRET,
        SERVICE_ACCOUNT,
        DEVICE_CLASS,
        NETWORK_POLICY,
        ADMISSION_POLICY,
        ADMISSION_BINDING,
    )
}


def kind_of(manifest: Manifest) -> Kind:
    """The kind of a manifest that we write. RejectedError (`UnknownKind`) for one that no tier publishes."""
    key = (str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")))
    if key not in _PUBLISHED:
        raise RejectedError(
            f"finding the kind of a manifest: no tier publishes: {' '.join(key)}",
            reason="UnknownKind",
            hint="add the kind to provisioner/platform/kinds.py",
        )
    return _PUBLISHED[key]
