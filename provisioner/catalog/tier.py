"""A tier: isolation + limits + promise sold. One folder per tier under `templates/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

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


class Scheduling(StrEnum):
    """How a pod gets its GPUs: whole ones as an extended resource, or devices through claims (DRA)."""

    DEVICE_PLUGIN = "device-plugin"
    DRA = "dra"


class NodePools(StrEnum):
    """Whether all nodes stand ready, or those beyond the smallest number of replicas come when pods wait for them."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class Isolation(StrEnum):
    """What stands between a replica and its node: nothing but the container, vNode, or a VM per replica."""

    NONE = "none"
    VNODE = "vnode"
    KUBEVIRT = "kubevirt"


class Routing(StrEnum):
    """How a replica is reached: a Gateway of the tenant's own, listeners of its own on one, a Gateway that the control
    plane cluster lends, or an Ingress."""

    TENANT_GATEWAY = "tenant-gateway"
    LISTENER_SET = "listener-set"
    IMPORTED_GATEWAY = "imported-gateway"
    INGRESS = "ingress"


class Autoscaling(StrEnum):
    """Who keeps the number of replicas."""

    KEDA = "keda"
    HPA = "hpa"


class Storage(StrEnum):
    """Where weights lie: a volume per replica, one file system for all, the node's NVMe, a bucket, the image."""

    PVC = "pvc"
    SHARED_FILESYSTEM = "shared-filesystem"
    NVME = "nvme"
    OBJECT_STORE = "object-store"
    IMAGE = "image"


class Sequencing(StrEnum):
    """How components come before the runtime: Applications that try again, or a Stack (Platform 4.12 and later)."""

    APPLICATIONS = "applications"
    STACK = "stack"


class Egress(StrEnum):
    """Where weights may come from: public addresses, or only the installation's own mirror."""

    PUBLIC = "public"
    MIRROR = "mirror"


class Partition(Entry):
    """A part of a GPU, as the driver makes it."""

    kind: Literal["mig", "fractional"]
    profile: Annotated[str, Field(description="for example 3g.40gb, or a share such as 1/2")]
    per_gpu: Annotated[int, Field(ge=1, le=16, description="parts of one GPU")]
    memory_bytes: Annotated[int, Field(gt=0, description="memory of one part")]


class Accelerator(Entry):
    """Which node types the tier may use: extended resource and node-type properties that must match.

    With scheduling `dra`, devices of `deviceClass` are claimed instead of the resource.
    """

    resource: Annotated[str, Field(description="extended resource, for example nvidia.com/gpu")]
    properties: Annotated[dict[str, str], Field(default_factory=dict)]
    rdma: Annotated[
        str | None,
        Field(description="resource of a node's RDMA devices, for each pod of a replica that spans nodes"),
    ] = None
    device_class: Annotated[str | None, Field(description="DRA device class, for example mig.nvidia.com")] = None
    partition: Annotated[Partition | None, Field(description="part of a GPU that a replica gets; null for whole")] = (
        None
    )

    @property
    def parts_per_gpu(self) -> int:
        """What one GPU of a node counts for: replicas ask for its parts where it has some."""
        return self.partition.per_gpu if self.partition else 1

    @property
    def driver(self) -> str:
        """The DRA driver whose devices are claimed: NVIDIA's publishes whole GPUs and MIG devices alike."""
        wanted = self.device_class or ""
        return "gpu.nvidia.com" if wanted.endswith(".nvidia.com") else wanted


class Limits(Entry):
    """Upper bounds on what one endpoint may ask for, and on what one tenant may send."""

    max_replicas: Annotated[int, Field(ge=1, le=1000)]
    max_gpus_per_replica: Annotated[int, Field(ge=0, le=1024)]
    requests_per_minute: Annotated[int | None, Field(ge=1, description="of one tenant; null for no limit")] = None
    tokens_per_minute: Annotated[int | None, Field(ge=1, description="of one tenant; null for no limit")] = None
    concurrent_requests: Annotated[
        int | None,
        Field(ge=1, description="of one tenant, in a pool of one replica for all of them; null for no limit"),
    ] = None


class Backups(Entry):
    """Scheduled snapshots of the control plane's store."""

    schedule: Annotated[str, Field(description="cron expression")]
    retention_days: Annotated[int, Field(ge=1, le=3650)]
    max_snapshots: Annotated[int, Field(ge=1, le=1000)] = 30


class ControlPlane(Entry):
    """The control plane of a tenant cluster."""

    replicas: Annotated[int, Field(ge=1, le=9)]
    backing_store: Literal["sqlite", "embedded-etcd", "external-database"]
    backups: Backups | None = None


class Profiles(Entry):
    """The control plane by profile: small for development, highly available for production."""

    dev: ControlPlane
    prod: ControlPlane


MANIFESTS = (
    "node-provider",
    "node-profile",
    "shared-device-class",
    "stack-application",
    "runtime-application",
    "stack-template",
    "virtual-cluster-template",
)
"""What a tier publishes unless it says otherwise; each writes nothing where the tier's options need nothing of it."""


class Tier(Entry):
    """One tier. `version` is the VirtualClusterTemplate version; a published version is never edited."""

    description: str
    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$", max_length=20)]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    tenancy: Tenancy
    pool_per: Annotated[
        Literal["tier", "model"], Field(description="with tenancy `pool`: one pool for all, or one per model")
    ] = "tier"
    node_mode: NodeMode
    node_pools: NodePools = NodePools.STATIC
    scheduling: Scheduling
    isolation: Isolation
    routing: Routing
    autoscaling: Autoscaling
    signals: Annotated[
        tuple[str, ...], Field(min_length=1, description="what the scaler looks at unless a request says")
    ] = ("queue-depth",)
    storage: Storage = Storage.PVC
    egress: Egress = Egress.PUBLIC
    sequencing: Sequencing = Sequencing.APPLICATIONS
    multi_node: Annotated[bool, Field(description="whether a replica may span nodes")] = False
    runtimes: tuple[str, ...]
    accelerator: Accelerator
    limits: Limits
    control_plane: Profiles
    stack: Annotated[tuple[str, ...], Field(description="components of the gpu-stack Application")] = ()
    policies: Annotated[tuple[str, ...], Field(description="admission policies in the tenant cluster")] = ()
    quota: Annotated[dict[str, str], Field(description="project quotas by Platform key")]
    manifests: Annotated[tuple[str, ...], Field(description="templates published with the tier")] = MANIFESTS
    example: Annotated[dict[str, Any], Field(description="a request that docs and golden files use")]

    @property
    def admits_custom_code(self) -> bool:
        """Whether images and adapters of a customer may run here: own nodes and a sandbox around each replica."""
        return self.node_mode is NodeMode.PRIVATE and self.isolation is not Isolation.NONE
