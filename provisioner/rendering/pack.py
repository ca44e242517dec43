"""The template pack, compiled for one catalog and one Site: the door through which everything is rendered.

What stands on the control plane cluster is next door in `publishing`; this half renders the runtimes' trees. A shape
is compiled the first time it is asked for. It reads templates from disk and does nothing else; the same input gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.pack import PackFiles, pack_root
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.errors import RejectedError
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.arguments import server_arguments
from provisioner.rendering.compiler import Compiled, Slots, compile_templates
from provisioner.rendering.publishing import COMMON, Publishing
from provisioner.rendering.values import REPLICA_SLOTS, RUNTIME_SLOTS, replica_values, runtime_values


@dataclass(frozen=True, slots=True)
class RuntimeShape:
    """Everything that a runtime's templates branch on or loop over."""

    tier: str
    runtime: str
    gpu_resource: str | None
    arguments: int


def compile_pack(catalog: Catalog, site: Site, *, root: Path | None = None, overlay: Path | None = None) -> Pack:
    """The pack for a catalog and a Site. `root` holds `templates/`, `applications/` and `policies/`; None is the pack
    that ships."""
    base = root or pack_root()
    return Pack(catalog, site, files=PackFiles((overlay, base) if overlay else (base,)))


class Pack(Publishing):
    """Renders tiers, projects and endpoints. Raises RejectedError naming file and line for a bad template."""

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
        files = {
            name.rpartition("/")[2]: name
            for owner in ("_shared", shape.runtime)
            for name in self._files.listed(f"applications/runtimes/{owner}/{part}", "*.yaml.j2")
        }
        common = {"site": self._site, "tier": tier}
        names = [files[name] for name in sorted(files)]
        return compile_templates(self._files, names, constants={**common, **constants}, slots=slots, optional=COMMON)


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
