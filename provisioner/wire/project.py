"""Projects on the wire: what a tenant may use of a tier."""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.wire.message import Message


class ProjectView(Message):
    """The Project of a tenant and tier on vCluster Platform, the same in each of `controlPlanes`.

    `allowedNodeTypes` null allows every node type, an empty list none; `quotas` are the Platform's words for what is
    limited, and the most there may be of it. A tier that the catalog has no more says nothing of either, and
    `offered` is false.
    """

    name: str
    tenant: str
    tier: str
    offered: bool
    ready: bool
    control_planes: tuple[str, ...] = ()
    allowed_templates: tuple[str, ...] = ()
    allowed_node_types: tuple[str, ...] | None = None
    quotas: Mapping[str, str] = {}
