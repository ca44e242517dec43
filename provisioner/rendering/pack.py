"""The template pack, compiled for one catalog and one Site: the door through which everything is rendered.

Publishing a tier, the lifecycle verbs, tenants, previews and golden files call it. A shape is compiled the first time
it is asked for. It reads templates from disk and does nothing else; the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import pack_root
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.errors import InvariantError, NotFoundError, RejectedError
from provisioner.domain.finding import unknown_name_hint
from provisioner.domain.plan import EndpointPlan
from provisioner.domain.tenant import project_name
from provisioner.rendering.arguments import server_arguments
from provisioner.rendering.compiler import Compiled, Slots, compile_templates
from provisioner.rendering.slots import SlotType
from provisioner.rendering.values import (
    INSTANCE_SLOTS,
    PROJECT_SLOTS,
    REPLICA_SLOTS,
    ROUTE_SLOTS,
    RUNTIME_SLOTS,
    instance_values,
    owner_values,
    replica_values,
    runtime_values,
)

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeShape:
    """Everything that a runtime's templates branch on or loop over."""

    tier: str
    runtime: str
    gpu_resource: str | None
    arguments: int


def compile_pack(catalog: Catalog, site: Site, *, root: Path | None = None) -> Pack:
    """The pack for a catalog and a Site. `root` holds `templates/`, `applications/` and `policies/`; None is the pack
    that ships."""
    return Pack(catalog, site, root=root or pack_root())


class Pack:
    """Renders tiers, projects and endpoints. Raises RejectedError naming file and line for a bad template."""

    def __init__(self, catalog: Catalog, site: Site, *, root: Path) -> None:
        self._catalog = catalog
        self._site = site
        self._root = root
        self._compiled: dict[tuple[str, object], Compiled] = {}

    def tier_objects(self, tier: str) -> tuple[Object, ...]:
        """What is published with a tier, in the order in which it has to exist."""
        found = self._tier(tier)
        constants = {"charts": self._catalog.versions.charts}
        compiled = self._once(("tier", tier), lambda: self._compile(found, found.manifests, {}, constants=constants))
        return tuple(compiled.objects({}))

    def project(self, tenant: str, tier: str) -> Object:
        """The Project of a tenant for a tier: allowed templates and node types, quotas."""
        found = self._tier(tier)
        constants = {
            "control_planes": self._site.control_planes,
            "node_types": [{"name": name} for name in self._node_types(found)],
        }
        compiled = self._once(
            ("project", tier), lambda: self._compile(found, ("project",), PROJECT_SLOTS, constants=constants)
        )
        return _only(compiled.objects({"project": project_name(tenant, tier), "tenant": tenant}))

    def instance(self, plan: EndpointPlan) -> Object:
        """The VirtualClusterInstance of an endpoint. Its tier must be one with a tenant cluster per endpoint."""
        tier = self._tier(plan.tier)
        if tier.instance is None:
            raise InvariantError(f"rendering tenant cluster: the tier has none per endpoint: `{tier.name}`")
        name = tier.instance
        compiled = self._once(("instance", tier.name), lambda: self._compile(tier, (name,), INSTANCE_SLOTS))
        return _only(compiled.objects(instance_values(plan)))

    def customer_route(self, plan: EndpointPlan) -> Object:
        """The HTTPRoute that leads the customer's hostname to our gateway."""
        tier = self._tier(plan.tier)
        compiled = self._once(("route", tier.name), lambda: self._compile(tier, ("customer-route",), ROUTE_SLOTS))
        return _only(compiled.objects({**owner_values(plan), "hostname": plan.address.hostname}))

    def runtime_tree(self, plan: EndpointPlan) -> dict[str, bytes]:
        """The files of an endpoint in the delivery repository: path from its root -> canonical YAML."""
        runtime = self._runtime(plan.runtime.runtime)
        arguments = server_arguments(plan.runtime, runtime)
        shape = RuntimeShape(
            tier=plan.tier,
            runtime=runtime.name,
            gpu_resource=plan.capacity.gpu_resource if plan.capacity.gpus_per_replica else None,
            arguments=len(arguments),
        )
        values = runtime_values(plan, arguments=arguments)
        files = self._runtime_manifests(shape).files(values)
        per_replica = self._replica_manifests(shape)
        for ordinal in range(plan.runtime.max_replicas):
            files |= per_replica.files(replica_values(plan, ordinal))
        return {f"{plan.delivery_path}/{name}": text for name, text in files.items()}

    def _runtime_manifests(self, shape: RuntimeShape) -> Compiled:
        runtime = self._runtime(shape.runtime)
        constants = {**runtime.options, "runtime": runtime, "gpu_resource": shape.gpu_resource}
        slots = Slots(RUNTIME_SLOTS, {"arguments": shape.arguments})
        return self._once(
            ("endpoint", shape), lambda: self._compile_runtime(shape, "endpoint", slots, constants=constants)
        )

    def _replica_manifests(self, shape: RuntimeShape) -> Compiled:
        constants = {"runtime": self._runtime(shape.runtime)}
        slots = Slots(REPLICA_SLOTS, {})
        key = (shape.tier, shape.runtime)
        return self._once(("replica", key), lambda: self._compile_runtime(shape, "replica", slots, constants=constants))

    def _compile_runtime(
        self, shape: RuntimeShape, part: str, slots: Slots, *, constants: Mapping[str, Any]
    ) -> Compiled:
        tier = self._tier(shape.tier)
        _check_rendered(tier)
        folder = Path("applications", "runtimes")
        files = {
            path.name: (folder / owner / part / path.name).as_posix()
            for owner in ("_shared", shape.runtime)
            for path in sorted((self._root / folder / owner / part).glob("*.yaml.j2"))
        }
        common = {"site": self._site, "tier": tier}
        names = [files[name] for name in sorted(files)]
        return compile_templates(self._root, names, constants={**common, **constants}, slots=slots, optional=_COMMON)

    def _compile(
        self,
        tier: Tier,
        names: tuple[str, ...],
        slots: Mapping[str, SlotType],
        *,
        constants: Mapping[str, Any] | None = None,
    ) -> Compiled:
        _check_rendered(tier)
        files = [self._template(tier, name) for name in names]
        everything = {"site": self._site, "tier": tier, **(constants or {})}
        return compile_templates(self._root, files, constants=everything, slots=Slots(slots, {}), optional=_COMMON)

    def _template(self, tier: Tier, name: str) -> str:
        own = f"templates/{tier.name}/{name}.yaml.j2"
        return own if (self._root / own).is_file() else f"templates/_parts/{name}.yaml.j2"

    def _node_types(self, tier: Tier) -> list[str]:
        return [
            f"{provider.name}.{offer.name}"
            for provider in self._site.providers
            for offer in provider.node_types
            if offer.has(tier.accelerator)
        ]

    def _once(self, key: tuple[str, object], make: Callable[[], Compiled]) -> Compiled:
        if key not in self._compiled:
            self._compiled[key] = make()
        return self._compiled[key]

    def _tier(self, name: str) -> Tier:
        return _named("tier", name, self._catalog.tiers)

    def _runtime(self, name: str) -> Runtime:
        return _named("runtime", name, self._catalog.runtimes)


_COMMON = frozenset({"site", "tier"})
"""Constants that every group of templates is given and need not read."""

_RENDERED: Mapping[str, frozenset[str]] = {
    "tenancy": frozenset({"endpoint", "pool"}),
    "scheduling": frozenset({"device-plugin"}),
    "isolation": frozenset({"none", "vnode"}),
    "autoscaling": frozenset({"keda"}),
}
"""What the templates do of what a tier may ask for. Anything else is refused, lest it be rendered as something else."""


def _check_rendered(tier: Tier) -> None:
    for field, known in _RENDERED.items():
        wanted = str(getattr(tier, field))
        if wanted not in known:
            raise RejectedError(
                f"rendering tier `{tier.name}`: the templates do not know {field}: `{wanted}`",
                reason="TierNotRendered",
                hint=f"known: {', '.join(sorted(known))}",
            )


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise NotFoundError(f"finding {what}: unknown: `{name}`", hint=unknown_name_hint(name, known))
    return known[name]


def _only(objects: list[Object]) -> Object:
    if len(objects) != 1:
        raise InvariantError(f"rendering object: the template makes {len(objects)} instead of one")
    return objects[0]
