"""The kinds that the controllers name themselves; all others come by discovery from the manifests that name them."""

from __future__ import annotations

from typing import Final

from provisioner.platform.interface import Kind


def _management(kind: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind("management.loft.sh", "v1", kind, plural, namespaced)


PROJECT: Final = _management("Project", "projects", namespaced=False)
TEMPLATE: Final = _management("VirtualClusterTemplate", "virtualclustertemplates", namespaced=False)
INSTANCE: Final = _management("VirtualClusterInstance", "virtualclusterinstances", namespaced=True)
NODE_PROVIDER: Final = _management("NodeProvider", "nodeproviders", namespaced=False)
NODE_TYPE: Final = _management("NodeType", "nodetypes", namespaced=False)
NODE_CLAIM: Final = _management("NodeClaim", "nodeclaims", namespaced=True)
NODE_ENVIRONMENT: Final = _management("NodeEnvironment", "nodeenvironments", namespaced=True)
NODE_PROFILE: Final = _management("NodeProfile", "nodeprofiles", namespaced=False)
APPLICATION_TEMPLATE: Final = _management("ArgoCDApplicationTemplate", "argocdapplicationtemplates", namespaced=False)
APPLICATION: Final = _management("ArgoCDApplication", "argocdapplications", namespaced=True)
NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE: Final = Kind("", "v1", "Node", "nodes", namespaced=False)
POD: Final = Kind("", "v1", "Pod", "pods")
DEVICE_CLASS: Final = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICE: Final = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
SECRET: Final = Kind("", "v1", "Secret", "secrets")
CERTIFICATE: Final = Kind("cert-manager.io", "v1", "Certificate", "certificates")
ISSUER: Final = Kind("cert-manager.io", "v1", "Issuer", "issuers")
CLUSTER_ISSUER: Final = Kind("cert-manager.io", "v1", "ClusterIssuer", "clusterissuers", namespaced=False)

INSTANCE_LABEL: Final = "loft.sh/vcluster-instance-name"
CLEANUP_FINALIZER: Final = "loft.sh/cleanup"
_PROJECT_NAMESPACE_PREFIX: Final = "p-"


def project_namespace(project: str) -> str:
    """The namespace of a project."""
    return _PROJECT_NAMESPACE_PREFIX + project


def project_of(namespace: str) -> str:
    """The project of a namespace."""
    return namespace.removeprefix(_PROJECT_NAMESPACE_PREFIX)
