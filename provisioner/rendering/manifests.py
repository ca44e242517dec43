"""Everything that creating an endpoint brings into the world, as files: what `plan --out` writes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from provisioner.catalog.tier import Tenancy
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import Pack
from provisioner.rendering.publishing import Object

_KIND = re.compile(rb"^kind: (\w+)$", re.MULTILINE)


def endpoint_files(pack: Pack, plan: EndpointPlan) -> dict[str, bytes]:
    """Path -> canonical YAML: `platform/` goes to the control plane cluster, the rest to the delivery repository."""
    objects = [pack.project(plan.placement.parameters["tenant"], plan.tier), *_placed(pack, plan)]
    objects.append(pack.customer_route(plan))
    files = {f"platform/{_file_name(made)}": canonical_yaml(made).encode() for made in objects}
    return files if plan.pool else files | pack.runtime_tree(plan)


def kinds(files: Mapping[str, bytes]) -> dict[str, int]:
    """How many objects of each kind there are, by name of kind."""
    found = Counter(match[1].decode() for text in files.values() if (match := _KIND.search(text)))
    return dict(sorted(found.items()))


def _placed(pack: Pack, plan: EndpointPlan) -> list[Object]:
    """Where it runs: a tenant cluster of its own, an application in its customer's, or a pool that is there already."""
    if plan.tenancy == Tenancy.ENDPOINT:
        return [pack.instance(plan)]
    if plan.tenancy == Tenancy.CUSTOMER:
        control_plane = plan.placement.control_plane
        return [pack.customer_instance(plan.tenant, plan.tier, control_plane=control_plane), pack.application(plan)]
    return []


def _file_name(made: Object) -> str:
    metadata = made["metadata"]
    parts = (metadata.get("namespace"), made["kind"].lower(), metadata["name"])
    return ".".join(part for part in parts if part) + ".yaml"
