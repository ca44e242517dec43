"""Forms in a tenant cluster's values that the schema leaves open: quantities, names of Services, labels of nodes.

Sources: vCluster documentation, "Replicate services", "Resource quota", "Nodes"; the Kubernetes grammar of quantities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import is_quantity
from provisioner.lint.joins.tenant import is_on
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, mapping, texts
from provisioner.lint.world import World

_QUANTITIES: tuple[FieldPath, ...] = (
    ("policies", "resourceQuota", "quota"),
    *(("policies", "limitRange", part) for part in ("default", "defaultRequest", "max", "min")),
    *(("controlPlane", "statefulSet", "resources", part) for part in ("limits", "requests")),
)
_SIZE = ("controlPlane", "statefulSet", "persistence", "volumeClaim", "size")
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


@rule("tenant-quantity-malformed", Severity.ERROR)
def tenant_quantity_malformed(world: World) -> Iterator[Hit]:
    """A quantity in a tenant cluster's values is none that Kubernetes reads.

    Bytes are Gi or G, not GB; a share of a core is 500m. The chart writes it into a ResourceQuota, a LimitRange or a
    pod, which the API server refuses, and the tenant cluster is not installed.
    """
    for tenant in world.tenants:
        written = [((*path, key), value) for path in _QUANTITIES for key, value in mapping(tenant.value, *path).items()]
        written.append((_SIZE, literal(tenant.value, *_SIZE)))
        for path, value in written:
            if isinstance(value, str | int | float) and not is_quantity(value):
                message = f"reading quantity: not one that Kubernetes reads: `{value}`"
                yield Hit(at=tenant, path=path, message=message, fix="write such as 20Gi or 500m")


@rule("replicated-service-malformed", Severity.ERROR)
def replicated_service_malformed(world: World) -> Iterator[Hit]:
    """A Service that is to be replicated is named by something that can be no Service.

    `networking.replicateServices` wants `namespace/name`, or a name alone for the tenant cluster's own namespace; a
    dot stands in neither.
    """
    for tenant in world.tenants:
        for side in ("fromHost", "toHost"):
            for path, item in items(tenant.value, "networking", "replicateServices", side):
                for end in ("from", "to"):
                    written = literal(item, end)
                    if written and not re.fullmatch(rf"({_NAME}/)?{_NAME}", written):
                        message = f"replicating Service: not a `namespace/name`: `{written}`"
                        fix = (
                            f"write {written.replace('.', '/', 1)}"
                            if written.count(".") == 1
                            else "write namespace/name"
                        )
                        yield Hit(at=tenant, path=(*path, end), message=message, fix=fix)


@rule("nodes-selected-none", Severity.WARNING)
def nodes_selected_none(world: World) -> Iterator[Hit]:
    """A tenant cluster sees the nodes with certain labels, and none of the folder's nodes has them.

    With `sync.fromHost.nodes` and a selector, pods run on the selected nodes only: they all stay Pending. Nodes that
    the folder does not show may match.
    """
    path = ("sync", "fromHost", "nodes")
    nodes = [node.labels for node in world.of_kind("Node")]
    for tenant in world.tenants if nodes else ():
        wanted = texts(tenant.value, *path, "selector", "labels")
        is_all = is_on(tenant.value, *path, "selector", "all")
        is_met = any(wanted.items() <= labels.items() for labels in nodes)
        if is_on(tenant.value, *path, "enabled") and wanted and not is_all and not is_met:
            told = ", ".join(f"{key}={value}" for key, value in wanted.items())
            message = f"showing nodes: none of those here has these labels: `{told}`"
            fix = "correct `selector.labels`, or label the nodes"
            yield Hit(at=tenant, path=(*path, "selector", "labels"), message=message, fix=fix)
