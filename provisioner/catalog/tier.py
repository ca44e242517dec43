"""A tier: isolation + limits + promise sold. One folder per tier under `templates/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from provisioner.catalog.entry import Entry


class Tenancy(StrEnum):
    """Who shares a tenant cluster."""

    ENDPOINT = "endpoint"
    CUSTOMER = "customer"
    POOL = "pool"


class NodeMode(StrEnum):
    """Whether the tenant cluster has nodes of its own."""

    PRIVATE = "private"
    SHARED = "shared"


class Accelerator(Entry):
    """Which node types the tier may use: extended resource and node-type properties that must match."""

    resource: Annotated[str, Field(description="extended resource, for example nvidia.com/gpu")]
    properties: Annotated[dict[str, str], Field(default_factory=dict)]


class Limits(Entry):
    """Upper bounds on what one endpoint may ask for."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    max_gpus_per_replica: Annotated[int, Field(ge=0, le=64)]


class Tier(Entry):
    """One tier. `version` is the VirtualClusterTemplate version; a published version is never edited."""

    description: str
    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$", max_length=20)]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    tenancy: Tenancy
    node_mode: NodeMode
    scheduling: Annotated[str, Field(pattern="^(device-plugin|dra)$")]
    isolation: Annotated[str, Field(pattern="^(none|vnode|kubevirt)$")]
    routing: Annotated[str, Field(pattern="^(tenant-gateway|imported-gateway)$")]
    autoscaling: Annotated[str, Field(pattern="^(keda|hpa)$")]
    runtimes: tuple[str, ...]
    accelerator: Accelerator
    limits: Limits
    stack: Annotated[tuple[str, ...], Field(description="components of the gpu-stack Application")] = ()
    quota: Annotated[dict[str, str], Field(description="project quotas by Platform key")]
    manifests: Annotated[tuple[str, ...], Field(description="templates published with the tier")]
    instance: Annotated[str | None, Field(description="template of an endpoint's tenant cluster")] = None
    example: Annotated[dict[str, Any], Field(description="a request that docs and golden files use")]
