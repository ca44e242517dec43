"""The Site: everything that differs between installations, in one frozen type read from `site.yaml`.

Stacks, tier publishing, workers, plan and preview all read it. Nothing site-specific stands in a template.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from provisioner.catalog.entry import Entry
from provisioner.catalog.fallback import FallbackOffer
from provisioner.catalog.installation import Installation
from provisioner.catalog.quantity import Quantity
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.tier import Accelerator, Isolation, Tier
from provisioner.domain.fallback import FallbackPolicy

SOVEREIGN_RUNTIME = "mistralrs"
"""The engine of a sovereign site that names none."""
DIGEST_POLICY = "image-digest"
"""The admission policy that refuses images without a digest, which those of profile `dev` may be."""
ANY_REGISTRY = "*"
"""Stands among registries for all of them."""


class NodeTypeOffer(Entry):
    """A node type that a provider of this site offers. Its full name is `<provider>.<name>`."""

    name: Annotated[str, Field(description="its full name is `<provider>.<name>`")]
    gpu_resource: Annotated[str, Field(description="extended resource of its GPUs")] = "nvidia.com/gpu"
    gpus: Annotated[int, Field(ge=0)]
    gpu_memory_bytes: Annotated[int, Field(ge=0, description="memory of one GPU")]
    cpu: Quantity
    memory: Quantity
    max_capacity: Annotated[int | None, Field(ge=1, description="nodes at most")] = None
    cost: Annotated[int | None, Field(ge=0, description="the cheapest that fits is taken; null comes last")] = None
    properties: Annotated[dict[str, str], Field(default_factory=dict, description="what tiers select node types by")]
    spec: Annotated[
        dict[str, Any],
        Field(default_factory=dict, description="what else the Platform's node type says, for example bareMetalHosts"),
    ]

    def has(self, accelerator: Accelerator) -> bool:
        """Whether it offers the resource and carries every property that an accelerator asks for."""
        return self.gpu_resource == accelerator.resource and accelerator.properties.items() <= self.properties.items()


class NodeProviderOffer(Entry):
    """A node provider of this site; `spec` is the provider part of the Platform's NodeProvider, without node types."""

    name: Annotated[str, Field(description="name of the NodeProvider on the Platform")]
    kind: Annotated[
        Literal["terraform", "kubeVirt", "clusterAPI", "metal3", "bcm"],
        Field(description="which part of the NodeProvider `spec` is"),
    ]
    spec: Annotated[dict[str, Any], Field(default_factory=dict)]
    node_types: Annotated[tuple[NodeTypeOffer, ...], Field(min_length=1)]


class ArgoSettings(Entry):
    """What tenant clusters' Applications are synced by; `settings` are the plain keys of the connector Secret."""

    kind: Annotated[Literal["argocd", "akuity"], Field(description="what the connector leads to")] = "argocd"
    settings: Annotated[dict[str, str], Field(default_factory=dict)]


class Region(Entry):
    """A region: its control plane cluster and the node providers that work there."""

    control_plane: Annotated[
        str,
        Field(description="name of the control plane cluster on the Platform, and of its context in our kubeconfig"),
    ]
    providers: Annotated[tuple[str, ...], Field(min_length=1, description="node providers that work there")]


class PublicAddress(Entry):
    """How customers reach endpoints. `hostname` may hold `{endpoint}` and `{tenant}`."""

    scheme: Annotated[Literal["http", "https"], Field(description="of customers' URLs")] = "https"
    hostname: Annotated[str, Field(description="for example {endpoint}.{tenant}.inference.example.com")]
    port: Annotated[int | None, Field(ge=1, le=65535)] = None

    @property
    def listener_port(self) -> int:
        """The port that customers come in by: the scheme's own, unless it says another."""
        return self.port or (443 if self.scheme == "https" else 80)


class IngressSettings(Entry):
    """The controller that serves Ingresses where a tier routes by them. Kubernetes knows no timeouts there, so every
    Ingress is given the annotations with which this controller is told them."""

    class_name: str
    annotations: Annotated[dict[str, str], Field(min_length=1, description="among them the controller's timeouts")]
    namespace: Annotated[
        str | None, Field(description="where its proxies run; null where those of our public Gateway do")
    ] = None


class GatewaySettings(Entry):
    """Gateway API names: our public Gateway and how tenants' own Gateways are made."""

    name: Annotated[str, Field(description="our public Gateway, in the control plane cluster")] = "public"
    namespace: Annotated[str, Field(description="where it and our gateways are")] = "tenantry"
    class_name: Annotated[str, Field(description="GatewayClass of our public Gateway")]
    controller: Annotated[
        str | None, Field(description="its controller; Envoy Gateway's is told apart whose certificates to want")
    ] = None
    tenant_class_name: Annotated[str, Field(description="GatewayClass of tenants' own Gateways")]
    tenant_port: Annotated[int, Field(ge=1, le=65535, description="of tenants' own Gateways")] = 443
    lent_port: Annotated[
        int,
        Field(ge=1, le=65535, description="of our public Gateway's listener for replicas on shared nodes"),
    ] = 8443
    tenant_controller: Annotated[
        str | None, Field(description="the same of the tenants' GatewayClass; null where tenant clusters have one")
    ] = None
    issuer: Annotated[str, Field(description="cert-manager ClusterIssuer of tenants' wildcard certificates")]
    issuer_spec: Annotated[
        dict[str, Any] | None, Field(description="spec of that ClusterIssuer; null where tenant clusters have one")
    ] = None
    source_ranges: Annotated[
        tuple[str, ...], Field(description="addresses from which tenants' Gateways may be reached; none means nobody")
    ] = ()
    client_ca: Annotated[str, Field(description="PEM of the CA of our gateways' client certificates")]
    ingress: Annotated[IngressSettings | None, Field(description="for tiers with routing `ingress`")] = None


class Delivery(Entry):
    """The delivery repository: where we push, and the same as Argo CD reads it."""

    url: Annotated[str, Field(description="where we push")]
    argo_url: Annotated[str, Field(description="the same as Argo CD reads it")]


class ObjectStore(Entry):
    """A bucket of weights, mounted through a CSI driver."""

    driver: Annotated[str, Field(description="CSI driver, for example s3.csi.aws.com")]
    volume_handle: Annotated[
        str,
        Field(
            description="the driver's name for it; `{claim}` in it stands for the volume, which most drivers want named"
        ),
    ]
    attributes: Annotated[dict[str, str], Field(default_factory=dict, description="volumeAttributes of the driver")]
    mount_options: Annotated[
        tuple[str, ...], Field(description="of the driver; servers read as user 10001, group 10001")
    ] = ()


class StorageSettings(Entry):
    """Where weights can lie in this installation. Storage classes are those of tenant clusters."""

    volume_class: Annotated[str | None, Field(description="class of a replica's volume; null for the default")] = None
    shared_class: Annotated[str | None, Field(description="class of a file system for many nodes")] = None
    nvme_class: Annotated[str | None, Field(description="class of volumes on the node's own NVMe")] = None
    object_store: ObjectStore | None = None


class Site(Entry):
    """One installation."""

    name: Annotated[str, Field(description="name of the installation")]
    profile: Annotated[
        Literal["dev", "prod"],
        Field(description="prod wants digests and highly available control planes, and offers fewer models"),
    ]
    tenant_domain: Annotated[str, Field(description="replicas live under `<tenant>.<tenantDomain>`")]
    public: Annotated[PublicAddress, Field(description="how customers reach endpoints")]
    gateway: GatewaySettings
    regions: Annotated[dict[str, Region], Field(min_length=1)]
    providers: tuple[NodeProviderOffer, ...]
    connector: Annotated[str, Field(min_length=1, description="Argo CD connector Secret")]
    argo: Annotated[ArgoSettings, Field(default_factory=ArgoSettings)]
    platform_namespace: Annotated[str, Field(description="where the Platform runs")] = "vcluster-platform"
    project_namespace_prefix: Annotated[
        str, Field(description="what the Platform calls namespaces of projects by; `loft-p-` on old installations")
    ] = "p-"
    delivery: Delivery
    registry: Annotated[str | None, Field(description="mirror prefix for every image")] = None
    registries: Annotated[
        tuple[str, ...],
        Field(
            description="prefixes of images that tenants may run; none means those of versions.yaml, and any in tiers "
            "that run what customers bring"
        ),
    ] = ()
    agent_image: Annotated[
        str | None, Field(description="image of the replica's agent, by digest; null for none beside the model server")
    ] = None
    pull_secret: Annotated[
        str | None,
        Field(description="Secret in namespace inference by which servers' images are pulled; null for none"),
    ] = None
    storage: Annotated[StorageSettings, Field(default_factory=StorageSettings)]
    mirror_ranges: Annotated[
        tuple[str, ...], Field(description="addresses of the weights' mirror, for tiers that use no other")
    ] = ()
    model_hub: Annotated[
        str | None, Field(pattern=r"^https://", description="address of the weights' mirror; null for the public hub")
    ] = None
    api_server_ranges: Annotated[
        tuple[str, ...],
        Field(description="addresses of API servers as nodes reach them, for agents; none means nobody"),
    ] = ()
    name_server_ranges: Annotated[
        tuple[str, ...],
        Field(
            description="where NodeLocal DNS answers on nodes of control plane clusters: its link-local address and the"
            " DNS Service's; none where it does not run"
        ),
    ] = ()
    metrics_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://",
            description="Prometheus that scrapes our gateways, as tenant clusters reach it, for signal gateway-queue",
        ),
    ] = None
    kubernetes_version: Annotated[
        str, Field(pattern=r"^1\.\d{2}$", description="minor version of tenant clusters' Kubernetes")
    ] = "1.36"
    platform_version: Annotated[str, Field(pattern=r"^\d+\.\d+$", description="version of vCluster Platform")] = "4.12"
    snapshots: Annotated[
        dict[str, Any] | None,
        Field(
            description="where snapshots of control planes go: `snapshots.storage` of vcluster.yaml; null for nowhere"
        ),
    ] = None
    database_connector: Annotated[
        str | None, Field(description="the Platform's database connector, for control planes with an external database")
    ] = None
    sovereign: Annotated[
        bool, Field(description="one engine from known sources; without `runtimes` it is `mistralrs`")
    ] = False
    runtimes: Annotated[tuple[str, ...] | None, Field(description="allowed runtimes; null for all")] = None
    retired_images: Annotated[
        tuple[str, ...], Field(description="images that may no longer be used: whole, by repository or by digest")
    ] = ()
    fallbacks: Annotated[
        tuple[FallbackOffer, ...],
        Field(description="targets outside for endpoints without a healthy replica; a sovereign site has none"),
    ] = ()
    chart_version: Annotated[str | None, Field(description="vCluster chart; null takes versions.yaml")] = None
    installation: Annotated[
        Installation | None, Field(description="Tenantry itself, as the stack `platform` stands it up")
    ] = None

    @property
    def control_planes(self) -> tuple[str, ...]:
        """The control plane clusters of all regions, each once, by name."""
        return tuple(sorted({region.control_plane for region in self.regions.values()}))

    @property
    def platform_cluster(self) -> str:
        """The control plane cluster that the Platform itself runs in."""
        named = self.installation.platform.control_plane if self.installation else None
        return named or self.control_planes[0]

    @property
    def entrance_namespace(self) -> str:
        """Where the proxies of our public Gateway run: from there come requests to replicas on shared nodes."""
        return self.installation.entrance_namespace if self.installation else self.gateway.namespace

    @property
    def metrics_port(self) -> int:
        """The port of the Prometheus that scrapes our gateways."""
        address = urlsplit(self.metrics_url or "")
        return address.port or (80 if address.scheme == "http" else 443)

    @property
    def fallback_policies(self) -> dict[str, FallbackPolicy]:
        """The policies of external fallback, by name."""
        return {offer.name: offer.policy() for offer in self.fallbacks}

    def offered_to(self, tier: Tier) -> dict[str, NodeTypeOffer]:
        """The node types that a tier may use, by full name: with what it asks for, VMs where isolation wants them."""
        return {
            f"{provider.name}.{offer.name}": offer
            for provider in self.providers
            if tier.isolation is not Isolation.KUBEVIRT or provider.kind == "kubeVirt"
            for offer in provider.node_types
            if offer.has(tier.accelerator)
        }

    def cheapest_for(self, tier: Tier) -> str | None:
        """The full name of the node type with the lowest cost; one without a cost comes last, as on the Platform."""
        offers = self.offered_to(tier).items()
        ranked = ((offer.cost is None, offer.cost or 0, name) for name, offer in offers)
        return min(ranked, default=(True, 0, None))[2]

    def image_registries(self, images: Iterable[str], tier: Tier) -> tuple[str, ...]:
        """The prefixes of images that tenants may run: those that the site names, else its mirror, else the
        repositories of the pack's own images, and any in a tier that runs what customers bring."""
        if self.registries or self.registry:
            return self.registries or (str(self.registry).rstrip("/"),)
        if tier.admits_custom_code:
            return (ANY_REGISTRY,)
        every = (*images, *((self.agent_image,) if self.agent_image else ()))
        return tuple(sorted({_repository(image) for image in every}))

    def bound_policies(self, tier: Tier) -> tuple[str, ...]:
        """The admission policies that tenant clusters of a tier bind here: only `prod` wants images by digest."""
        return tuple(name for name in tier.policies if self.profile == "prod" or name != DIGEST_POLICY)

    def allows_runtime(self, runtime: Runtime) -> bool:
        """Whether this installation may run the engine: profile, list of allowed ones, one engine where sovereign."""
        allowed = self.runtimes or ((SOVEREIGN_RUNTIME,) if self.sovereign else None)
        return self.profile in runtime.profiles and (allowed is None or runtime.name in allowed)

    def is_retired(self, image: str) -> bool:
        """Whether an image reference is one that may no longer be used, named whole, by repository or by digest."""
        tagged, _, digest = image.partition("@")
        return not {image, tagged, _repository(image), digest}.isdisjoint(self.retired_images)

    def mirrored(self, image: str) -> str:
        """The reference as this installation pulls it: behind the mirror where there is one."""
        return f"{self.registry.rstrip('/')}/{image}" if self.registry else image


def _repository(image: str) -> str:
    """The reference without digest and tag; a registry's port is no tag."""
    tagged = image.partition("@")[0]
    return tagged.rsplit(":", 1)[0] if ":" in tagged.rsplit("/", 1)[-1] else tagged
