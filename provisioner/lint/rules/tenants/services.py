"""The Service of a tenant cluster's control plane."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import literal
from provisioner.lint.world import World

_TYPE = ("controlPlane", "service", "spec", "type")
_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")


@rule("control-plane-service-type-unknown", Severity.ERROR)
def control_plane_service_type_unknown(world: World) -> Iterator[Hit]:
    """The Service of a control plane is of a type that Kubernetes does not have.

    The chart hands `controlPlane.service.spec` to the API server as it is, which refuses the Service: the tenant
    cluster is never deployed.
    """
    for tenant in world.tenants:
        kind = literal(tenant.value, *_TYPE)
        if kind is not None and kind not in _TYPES:
            near = nearest_name(kind, _TYPES)
            message = f"deploying control plane: there is no Service of type `{kind}`"
            fix = f"did you mean {near}?" if near else f"write one of: {', '.join(_TYPES)}"
            yield Hit(at=tenant, path=_TYPE, message=message, fix=fix)
