"""Runtimes as every kind of tier renders them, for tests: the shipped tiers, and each option that a tier may choose.

`case(...)` plans the smallest model of a runtime at the example Site, with options of tier and site changed, and keeps
what is delivered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml

from provisioner.admission.admit import forecast_endpoint
from provisioner.admission.manifests import ManifestJudge
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import IngressSettings, Site
from provisioner.catalog.tier import Tier
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack, compile_pack
from tests.unit.rendering.examples import catalog, example_site, model_for, offered

Object = dict[str, Any]

PINNED = f"registry.example.com/parakeet@sha256:{'b' * 64}"
"""Stands for an image of which no public text names a digest."""
AGENT = f"registry.example.com/tenantry/agent@sha256:{'a' * 64}"
PAIRS = [(name, runtime) for name, tier in sorted(catalog().tiers.items()) for runtime in sorted(offered(tier))]
"""Every shipped tier with every runtime that it may run in production."""

OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pvc": ("dedicated", {"storage": "pvc"}),
    "nvme": ("dedicated", {"storage": "nvme"}),
    "shared-filesystem": ("dedicated", {"storage": "shared-filesystem"}),
    "object-store": ("dedicated", {"storage": "object-store"}),
    "image": ("dedicated", {"storage": "image"}),
    "mirror": ("dedicated", {"egress": "mirror"}),
    "listener-set": ("dedicated", {"routing": "listener-set"}),
    "ingress": ("shared", {"routing": "ingress"}),
    "shared-gateway-of-its-own": ("shared", {"routing": "tenant-gateway"}),
    "hpa": ("dedicated", {"autoscaling": "hpa"}),
    "every-signal": (
        "dedicated",
        {
            "signals": (
                "queue-depth",
                "running-requests",
                "time-to-first-token",
                "tokens-per-second",
                "gpu-utilization",
                "gpu-memory",
                "gateway-queue",
            )
        },
    ),
    "virtual-machines": ("isolated", {"isolation": "kubevirt", "policies": ()}),
    "customer": ("dedicated", {"tenancy": "customer"}),
    "static": ("dedicated", {"node_pools": "static"}),
    "many-nodes-own-volumes": ("multinode", {"storage": "pvc"}),
    "many-nodes-hpa": ("multinode", {"autoscaling": "hpa"}),
}
"""Options that no shipped tier chooses, or not alone: the tier to change, and what to change."""


@dataclass(frozen=True, eq=False)
class Case:
    """One plan and everything that is delivered for it; for a customer's tenant cluster also what it holds once."""

    tier: Tier
    site: Site
    plan: EndpointPlan
    pack: Pack
    tree: Mapping[str, bytes]

    @cached_property
    def objects(self) -> list[Object]:
        """What is delivered, read back."""
        return [yaml.load(text, Loader=yaml.CSafeLoader) for text in self.tree.values()]

    def of_kind(self, kind: str) -> list[Object]:
        """The delivered objects of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    @property
    def workload(self) -> Object:
        """What makes the replicas' pods."""
        [found] = [*self.of_kind("StatefulSet"), *self.of_kind("LeaderWorkerSet")]
        return found

    @property
    def pods(self) -> dict[str, Object]:
        """The pod templates by role."""
        templates = [template for found in self.objects for template in pod_templates(found)]
        return {found["metadata"]["labels"]["tenantry.io/role"]: found for found in templates}

    @property
    def server(self) -> Object:
        """The model server's container."""
        return dict(self.pods["server"]["spec"]["containers"][0])

    def denials(self) -> list[str]:
        """What the tier's own admission policies say to what is delivered."""
        return [f"{finding.field}: {finding.message}" for finding in ManifestJudge(self.pack).findings(self.plan)]


def pod_templates(found: Object) -> list[Object]:
    """The pod templates of an object; none for one that makes no pods."""
    spec = found.get("spec", {})
    if found["kind"] == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        return [group["leaderTemplate"], group["workerTemplate"]]
    return [spec["template"]] if found["kind"] in ("Job", "StatefulSet") else []


@cache
def pinned() -> Catalog:
    """The catalog that ships, every image by its digest."""
    real = catalog()
    images = {key: image if "@" in image else PINNED for key, image in real.versions.images.items()}
    return dataclasses.replace(real, versions=dataclasses.replace(real.versions, images=images))


@cache
def full_site() -> Site:
    """The example Site with everything that it may leave out."""
    found = example_site()
    annotations = {"haproxy-ingress.github.io/timeout-server": "1h"}
    ingress = IngressSettings(class_name="haproxy", annotations=annotations, namespace="haproxy-controller")
    return found.model_copy(
        update={
            "agent_image": AGENT,
            "api_server_ranges": ("192.0.2.0/28",),
            "gateway": found.gateway.model_copy(update={"ingress": ingress}),
            "metrics_url": "https://metrics.example.com",
            "model_hub": "https://models.example.com",
        }
    )


@cache
def shipped(tier: str, runtime: str) -> Case:
    """A shipped tier at the example Site."""
    return _case(pinned(), example_site(), tier, runtime, {})


@cache
def optional(name: str, runtime: str = "vllm") -> Case:
    """One of OPTIONS at the full Site."""
    tier, changes = OPTIONS[name]
    return changed(tier, runtime, **changes)


def changed(
    tier: str,
    runtime: str = "vllm",
    *,
    request: Mapping[str, Any] | None = None,
    site: Site | None = None,
    **options: Any,
) -> Case:
    """A tier with options changed, at the full Site unless another is given, for a request with fields changed."""
    values = {**catalog().tiers[tier].model_dump(), **options}
    known = dataclasses.replace(pinned(), tiers={tier: Tier.model_validate(values, strict=False)})
    if options.get("storage") == "image":
        known = dataclasses.replace(known, versions=dataclasses.replace(known.versions, images=_with_weights(known)))
    return _case(known, site or full_site(), tier, runtime, request or {})


def _with_weights(known: Catalog) -> dict[str, str]:
    """Images that somebody built from the engines', with weights in them."""
    return {key: f"registry.example.com/models/{key}@sha256:{'d' * 64}" for key in known.versions.images}


def _case(known: Catalog, site: Site, name: str, runtime: str, changes: Mapping[str, Any]) -> Case:
    tier = known.tiers[name]
    own = known.models[tier.example["model"]].master.runtime == runtime
    raw = {**tier.example, **({} if own else {"model": model_for(runtime)}), **changes}
    forecast = forecast_endpoint(raw, catalog=known, site=site)
    if forecast.plan is None:
        raise AssertionError([finding.message for finding in forecast.findings])
    pack = compile_pack(known, site)
    tree = pack.runtime_tree(forecast.plan)
    if tier.tenancy == "customer":
        tree |= pack.tenant_tree(forecast.plan.tenant, name)
    return Case(tier, site, forecast.plan, pack, tree)
