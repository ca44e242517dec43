"""What stands on the control plane cluster: what a tier publishes, projects, tenant cluster instances, applications.

The upper half of the pack's door; runtimes' trees are next door in `pack`. Publishing, the lifecycle verbs, tenants,
previews and golden files call it. It reads templates from disk and does nothing else; secrets come as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import PackFiles
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import NodeMode, NodePools, Sequencing, Tenancy, Tier
from provisioner.domain.errors import InvariantError, NotFoundError, RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.domain.tenant import project_name
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.compiler import Compiler, Fillable, Slots, SlotValue, compile_templates
from provisioner.rendering.slots import SlotType
from provisioner.rendering.versions import with_frozen

Object = dict[str, Any]
T = TypeVar("T")

COMMON = frozenset({"site", "tier"})
"""Constants that every group of templates is given and need not read."""

TEXT = SlotType.TEXT
PROJECT_SLOTS: Mapping[str, SlotType] = {"project": TEXT, "tenant": TEXT}
ROUTE_SLOTS: Mapping[str, SlotType] = {"endpoint": TEXT, "tenant": TEXT, "hostname": TEXT}
APPLICATION_SLOTS: Mapping[str, SlotType] = {
    "endpoint": TEXT,
    "tenant": TEXT,
    "tenant_cluster": TEXT,
    "project": TEXT,
    "path": TEXT,
    "branch": TEXT,
}
NUMBERS = frozenset({"nodes", "burstNodes"})
"""Parameters of a template that are numbers; the plan keeps them as text."""
STACKS_SINCE = (0, 37)


def published_name(kind: str, tier: Tier) -> str:
    """The name of an object that is never changed in place: it carries the tier's version."""
    return f"tenantry-{kind}-{tier.name}-{tier.version.replace('.', '-')}"


def template_parameters(tier: Tier) -> tuple[list[tuple[str, str]], list[tuple[str, str, int]]]:
    """What a tenant cluster of the tier must be told: names and labels of texts, names, labels and minima of numbers.

    The pools of a customer's tenant cluster come from the site: nobody knows its endpoints when it is made.
    """
    owner = {Tenancy.ENDPOINT: ("endpoint", "Endpoint id"), Tenancy.POOL: ("pool", "Pool id")}.get(tier.tenancy)
    texts = [*([owner] if owner else []), ("tenant", "Tenant")]
    texts.append(("namespace", "Namespace of the runtime in the tenant cluster"))
    if tier.node_mode is NodeMode.SHARED or tier.tenancy is Tenancy.CUSTOMER:
        return texts, []
    texts += [("provider", "Node provider"), ("nodeType", "Node type, with its provider's name before it")]
    numbers = [("nodes", "Nodes that stand ready", 1)]
    if tier.node_pools is NodePools.DYNAMIC:
        numbers.append(("burstNodes", "Nodes that come when pods wait for them", 0))
    return texts, numbers


@dataclass(frozen=True, slots=True)
class Filled:
    """A compiled group and what fills its slots: one object, or its file."""

    compiled: Fillable
    values: Mapping[str, SlotValue]

    @property
    def objects(self) -> list[Object]:
        """The objects as JSON values."""
        return self.compiled.objects(self.values)

    @property
    def object(self) -> Object:
        """The object as JSON values. Raises InvariantError where the template makes another number of them."""
        objects = self.objects
        if len(objects) != 1:
            raise InvariantError(f"rendering object: the template makes {len(objects)} instead of one")
        return objects[0]

    @property
    def files(self) -> dict[str, bytes]:
        """Its canonical YAML by file name; quicker than the object."""
        return self.compiled.files(self.values)


class Publishing:
    """Renders everything of the control plane cluster. Raises RejectedError naming file and line for a bad template."""

    def __init__(
        self, catalog: Catalog, site: Site, *, files: PackFiles, compiler: Compiler = compile_templates
    ) -> None:
        self.catalog = catalog
        self.site = site
        self.files = files
        self._compiler = compiler
        self._compiled: dict[tuple[str, object], Fillable] = {}

    def tier_objects(self, tier: str) -> tuple[Object, ...]:
        """What is published with a tier, in the order in which it has to exist.

        Versions that were published earlier and lie in its folder `versions/` come with it.
        """
        return with_frozen(self.published(tier).objects, files=self.files, tier=tier)

    def published(self, tier: str) -> Filled:
        """What is published with a tier for the first time."""
        found = self._tier(tier)
        return Filled(self._once(("tier", tier), lambda: self._compile_tier(found)), {})

    def project(self, tenant: str, tier: str) -> Object:
        """The Project of a tenant for a tier: allowed templates and node types, quotas."""
        return self._project(tenant, self._tier(tier)).object

    def placed_files(self, plan: EndpointPlan) -> dict[str, bytes]:
        """What creating an endpoint applies to the control plane cluster, by file name."""
        return {name: text for part in self.placed(plan) for name, text in part.files.items()}

    def placed(self, plan: EndpointPlan) -> list[Filled]:
        """What creating an endpoint applies to the control plane cluster: its project, where it runs (a tenant cluster
        of its own, or an application in its customer's) and its route; the route alone where a pool serves it."""
        tier = self._tier(plan.tier)
        if plan.is_alias:
            return [self._customer_route(plan, tier)]
        parts = [self._project(plan.placement.parameters["tenant"], tier)]
        if plan.owns_tenant_cluster:
            parts.append(self._own_instance(plan, tier))
        elif tier.tenancy is Tenancy.CUSTOMER:
            parts.append(self._customer_instance(plan.tenant, tier, plan.placement.control_plane))
            parts.append(self._application(plan, tier))
        return [*parts, self._customer_route(plan, tier)]

    def instance(self, plan: EndpointPlan) -> Object:
        """The VirtualClusterInstance of an endpoint or of the pool that serves it. In a tier with a tenant cluster per
        customer it comes from `customer_instance`."""
        return self._own_instance(plan, self._tier(plan.tier)).object

    def customer_instance(self, tenant: str, tier: str, *, control_plane: str) -> Object:
        """The VirtualClusterInstance that all endpoints of a tenant share, in a tier with tenancy `customer`."""
        found = self._tier(tier)
        if found.tenancy is not Tenancy.CUSTOMER:
            raise InvariantError(f"rendering tenant cluster: the tier has none per customer: `{tier}`")
        return self._customer_instance(tenant, found, control_plane).object

    def application(self, plan: EndpointPlan) -> Object:
        """The ArgoCDApplication of an endpoint in its customer's tenant cluster."""
        return self._application(plan, self._tier(plan.tier)).object

    def customer_route(self, plan: EndpointPlan) -> Object:
        """The HTTPRoute that leads the customer's hostname to our gateway."""
        return self._customer_route(plan, self._tier(plan.tier)).object

    def _project(self, tenant: str, tier: Tier) -> Filled:
        compiled = self._once(("project", tier.name), lambda: self._compile_project(tier))
        return Filled(compiled, {"project": project_name(tenant, tier.name), "tenant": tenant})

    def _compile_project(self, tier: Tier) -> Fillable:
        names = self.site.offered_to(tier) if tier.node_mode is NodeMode.PRIVATE else ()
        constants = {"control_planes": self.site.control_planes, "node_types": [{"name": name} for name in names]}
        return self._compile(tier, ("project",), PROJECT_SLOTS, constants=constants)

    def _own_instance(self, plan: EndpointPlan, tier: Tier) -> Filled:
        placement = plan.placement
        owned: dict[Tenancy, dict[str, str]] = {
            Tenancy.ENDPOINT: {"endpoint": plan.endpoint},
            Tenancy.POOL: {"pool": plan.serving_id},
        }
        if tier.tenancy not in owned:
            raise InvariantError(f"rendering tenant cluster: the tier has none per endpoint: `{tier.name}`")
        values = {
            **owned[tier.tenancy],
            "tenant": placement.parameters["tenant"],
            "tenant_cluster": placement.tenant_cluster,
            "project": placement.project,
            "template": placement.template,
            "template_version": placement.template_version,
            "control_plane": placement.control_plane,
            "parameters": _parameters(placement.parameters),
        }
        return self._instance(tier, values)

    def _customer_instance(self, tenant: str, tier: Tier, control_plane: str) -> Filled:
        values = {
            "tenant": tenant,
            "tenant_cluster": tenant,
            "project": project_name(tenant, tier.name),
            "template": f"tenantry-{tier.name}",
            "template_version": tier.version,
            "control_plane": control_plane,
            "parameters": _parameters({"tenant": tenant, "namespace": TENANT_NAMESPACE}),
        }
        return self._instance(tier, values)

    def _application(self, plan: EndpointPlan, tier: Tier) -> Filled:
        constants = {"runtime_name": published_name("runtime", tier), "namespace": TENANT_NAMESPACE}
        compiled = self._once(
            ("application", tier.name),
            lambda: self._compile(tier, ("application",), APPLICATION_SLOTS, constants=constants),
        )
        values = {
            "endpoint": plan.endpoint,
            "tenant": plan.tenant,
            "tenant_cluster": plan.placement.tenant_cluster,
            "project": plan.placement.project,
            "path": plan.delivery_path,
            "branch": plan.serving_id,
        }
        return Filled(compiled, values)

    def _customer_route(self, plan: EndpointPlan, tier: Tier) -> Filled:
        compiled = self._once(("route", tier.name), lambda: self._compile(tier, ("customer-route",), ROUTE_SLOTS))
        values = {"endpoint": plan.endpoint, "tenant": plan.tenant, "hostname": plan.address.hostname}
        return Filled(compiled, values)

    def _instance(self, tier: Tier, values: Mapping[str, SlotValue]) -> Filled:
        slots = dict.fromkeys(values, TEXT)
        compiled = self._once(("instance", tier.name), lambda: self._compile(tier, ("instance",), slots))
        return Filled(compiled, values)

    def _compile_tier(self, tier: Tier) -> Fillable:
        site = self.site
        node_types: dict[str, list[str]] = {}
        for name in site.offered_to(tier):
            if tier.node_mode is NodeMode.PRIVATE:
                node_types.setdefault(name.partition(".")[0], []).append(name)
        texts, numbers = template_parameters(tier)
        constants = {
            "base_type": site.cheapest_for(tier),
            "chart_version": self._chart_version(tier),
            "charts": self.catalog.versions.charts,
            "control_plane": tier.control_plane.prod if site.profile == "prod" else tier.control_plane.dev,
            "node_types": node_types,
            "number_parameters": numbers,
            "policies": site.bound_policies(tier),
            "providers": [provider for provider in site.providers if provider.name in node_types],
            "registries": site.image_registries(self.catalog.images, tier),
            "runtime_name": published_name("runtime", tier),
            "serving_name": published_name("serving", tier),
            "stack_name": published_name("gpu-stack", tier),
            "text_parameters": texts,
        }
        return self._compile(tier, tier.manifests, {}, constants=constants, optional=COMMON | constants.keys())

    def _chart_version(self, tier: Tier) -> str:
        version = self.site.chart_version or self.catalog.versions.charts["vcluster"]
        if tier.sequencing is Sequencing.STACK and _release(version) < STACKS_SINCE:
            raise RejectedError(
                f"rendering tier `{tier.name}`: sequencing `stack` needs chart 0.37 or later, found: `{version}`",
                reason="ChartTooOld",
                hint="raise chartVersion of the site, or use sequencing `applications`",
            )
        return version

    def _compile(
        self,
        tier: Tier,
        names: tuple[str, ...],
        slots: Mapping[str, SlotType],
        *,
        constants: Mapping[str, Any] | None = None,
        optional: frozenset[str] = COMMON,
    ) -> Fillable:
        files = [self._template(tier, name) for name in names]
        everything = {"site": self.site, "tier": tier, **(constants or {})}
        return self._compiler(self.files, files, constants=everything, slots=Slots(slots, {}), optional=optional)

    def _template(self, tier: Tier, name: str) -> str:
        own = f"templates/{tier.name}/{name}.yaml.j2"
        return own if self.files.find(own) else f"templates/_parts/{name}.yaml.j2"

    def _once(self, key: tuple[str, object], make: Callable[[], Fillable]) -> Fillable:
        if key not in self._compiled:
            self._compiled[key] = make()
        return self._compiled[key]

    def _tier(self, name: str) -> Tier:
        return _named("tier", name, self.catalog.tiers)

    def _runtime(self, name: str) -> Runtime:
        return _named("runtime", name, self.catalog.runtimes)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].lstrip("v").split("."))


def _parameters(texts: Mapping[str, str]) -> str:
    """The Platform takes parameters as YAML text."""
    return canonical_yaml({name: int(text) if name in NUMBERS else text for name, text in texts.items()})


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise NotFoundError(f"finding {what}: unknown: `{name}`", hint=unknown_name_hint(name, known))
    return known[name]
