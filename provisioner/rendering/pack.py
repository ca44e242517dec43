"""The template pack, compiled for one catalog and one Site: the door through which everything is rendered.

What stands on the control plane cluster is next door in `publishing`; this half renders the runtimes' trees. A shape
is compiled the first time it is asked for. It reads templates from disk and does nothing else; the same input gives the
same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import PackFiles, pack_root
from provisioner.catalog.runtime import Runtime
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tenancy, Tier
from provisioner.domain.errors import InvariantError
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.compiler import Compiler, Fillable, compile_templates
from provisioner.rendering.digest import digest_tree
from provisioner.rendering.groups import Group, customer_group, runtime_groups, workload_group
from provisioner.rendering.platform import render_platform
from provisioner.rendering.publishing import Filled, Object, Publishing

RUNTIMES = "applications/runtimes"
SHARED = "_shared"
"""The folder whose templates every runtime uses; one of the same name in a runtime's own folder takes its place."""
_NAMES_OF_WORKLOAD = ("endpoint", "tenant", "workload", "revision", "claim")
"""Slots of a workload that say whose it is, and not what runs."""


def compile_pack(
    catalog: Catalog,
    site: Site,
    *,
    root: Path | None = None,
    overlay: Path | None = None,
    compiler: Compiler = compile_templates,
) -> Pack:
    """The pack for a catalog and a Site. `root` holds `templates/`, `applications/` and `policies/`; None is the pack
    that ships."""
    base = root or pack_root()
    return Pack(catalog, site, files=PackFiles((overlay, base) if overlay else (base,)), compiler=compiler)


class Pack(Publishing):
    """Renders tiers, projects and endpoints. Raises RejectedError naming file and line for a bad template."""

    def runtime_tree(self, plan: EndpointPlan, *, beside: EndpointPlan | None = None) -> dict[str, bytes]:
        """The files of an endpoint, or of the pool that serves it, in the delivery repository: path from its root ->
        canonical YAML. What its tenant cluster holds once comes with it, unless a customer's endpoints share one, with
        room for the revision `beside` it while one takes over from the other."""
        files: dict[str, bytes] = {}
        for part in self._runtime_parts(plan, beside):
            files |= part.files
        return _delivered(plan, files)

    def workload_files(self, plan: EndpointPlan) -> dict[str, bytes]:
        """Those files of `runtime_tree` that make the pods: another content is another revision's."""
        return _delivered(plan, self._workload(plan).files)

    def revised(self, plan: EndpointPlan) -> EndpointPlan:
        """The plan with its revision made to cover how its pods are rendered here as well: templates and site change
        pods that the request, the model and the tier leave alone. For a plan as admission made it, once."""
        part = self._workload(plan)
        nameless = Filled(part.compiled, {**part.values, **dict.fromkeys(_NAMES_OF_WORKLOAD, "")})
        text = f"{plan.runtime.revision} {digest_tree(nameless.files)}"
        revision = hashlib.sha256(text.encode()).hexdigest()[: len(plan.runtime.revision)]
        return replace(plan, runtime=replace(plan.runtime, revision=revision))

    def tenant_objects(self, plan: EndpointPlan) -> list[Object]:
        """Everything that Argo CD puts into the plan's tenant cluster as JSON values: the objects of `runtime_tree`,
        and what a customer's endpoints share."""
        return [made for part in self._tenant_parts(plan) for made in part.objects]

    def parts(self, plan: EndpointPlan) -> tuple[Filled, ...]:
        """Everything that serves an endpoint, what it shares with others included: what creating it applies, the pool
        that it needs, and all of its tenant cluster."""
        pool: list[Filled] = []
        if plan.is_alias:
            tier = self._tier(plan.tier)
            pool = [self._project(plan.placement.parameters["tenant"], tier), self._own_instance(plan, tier)]
        return (*self.placed(plan), *pool, *self._tenant_parts(plan))

    def tenant_tree(self, tenant: str, tier: str) -> dict[str, bytes]:
        """The files of what a customer's endpoints share, in a tier with a tenant cluster per customer."""
        found = self._tier(tier)
        if found.tenancy is not Tenancy.CUSTOMER:
            raise InvariantError(f"rendering tenant cluster: the tier has none per customer: `{tier}`")
        group = customer_group(tenant, found, self.site)
        files = self._group(group, found, None).files(group.fillings[0])
        return {f"tenants/{tenant}/{name}": text for name, text in files.items()}

    def platform_groups(self, *, secrets: Mapping[str, str] | None = None) -> dict[str, tuple[Object, ...]]:
        """What an installation needs once, by group, in the order of existence; `rendering.platform` tells the groups
        and the secrets, which are holes unless they are given."""
        return render_platform(self.site, files=self.files, compiler=self._compiler, secrets=secrets or {})

    def platform_objects(self) -> tuple[Object, ...]:
        """All of it, with holes; nothing where the site says nothing of an installation."""
        groups = self.platform_groups() if self.site.installation else {}
        return tuple(made for objects in groups.values() for made in objects)

    def _tenant_parts(self, plan: EndpointPlan) -> Iterator[Filled]:
        yield from self._runtime_parts(plan)
        tier = self._tier(plan.tier)
        if tier.tenancy is Tenancy.CUSTOMER:
            group = customer_group(plan.tenant, tier, self.site)
            yield Filled(self._group(group, tier, None), group.fillings[0])

    def _runtime_parts(self, plan: EndpointPlan, beside: EndpointPlan | None = None) -> Iterator[Filled]:
        tier, runtime = self._tier(plan.tier), self._runtime(plan.runtime.runtime)
        for group in runtime_groups(plan, tier=tier, runtime=runtime, site=self.site, beside=beside):
            compiled = self._group(group, tier, runtime)
            yield from (Filled(compiled, filling) for filling in group.fillings)

    def _workload(self, plan: EndpointPlan) -> Filled:
        tier, runtime = self._tier(plan.tier), self._runtime(plan.runtime.runtime)
        group = workload_group(plan, runtime)
        return Filled(self._group(group, tier, runtime), group.fillings[0])

    def _group(self, group: Group, tier: Tier, runtime: Runtime | None) -> Fillable:
        return self._once((group.part, group.shape), lambda: self._compile_group(group, tier, runtime))

    def _compile_group(self, group: Group, tier: Tier, runtime: Runtime | None) -> Fillable:
        constants = group_constants(group, site=self.site, tier=tier, runtime=runtime)
        names = template_names(self.files, group.part, runtime)
        return self._compiler(self.files, names, constants=constants, slots=group.slots, optional=frozenset(constants))


def _delivered(plan: EndpointPlan, files: Mapping[str, bytes]) -> dict[str, bytes]:
    folder = plan.delivery_path
    return {f"{folder}/{name}": text for name, text in files.items()}


def group_constants(group: Group, *, site: Site, tier: Tier, runtime: Runtime | None) -> dict[str, Any]:
    """What the templates of a group see beside their slots."""
    return {"runtime": runtime, "shape": group.shape, "site": site, "tier": tier}


def template_names(files: PackFiles, part: str, runtime: Runtime | None) -> list[str]:
    """The templates of one part, a runtime's own in the place of the shared ones of the same name."""
    found = {
        name.rpartition("/")[2]: name
        for owner in (SHARED, *([runtime.name] if runtime else []))
        for name in files.listed(f"{RUNTIMES}/{owner}/{part}", "*.yaml.j2")
    }
    return [found[name] for name in sorted(found)]
