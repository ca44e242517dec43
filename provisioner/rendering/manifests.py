"""Everything that creating an endpoint brings into the world, as files: what `plan --out` writes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.canonical import canonical_yaml
from provisioner.rendering.pack import Pack

_KIND = re.compile(rb"^kind: (\w+)$", re.MULTILINE)


def endpoint_files(pack: Pack, plan: EndpointPlan) -> dict[str, bytes]:
    """Path -> canonical YAML: `platform/` goes to the control plane cluster, the rest to the delivery repository."""
    files = {f"platform/{name}": text for name, text in pack.placed_files(plan).items()}
    return files if plan.is_alias else files | pack.runtime_tree(plan)


def pool_files(pack: Pack, plan: EndpointPlan) -> dict[str, bytes]:
    """What the pool is made of that serves an endpoint and is there before it: path -> canonical YAML, below `pool/`;
    nothing for an endpoint with replicas of its own, such as a pool itself."""
    if not plan.is_alias:
        return {}
    instance = pack.instance(plan)
    name = f"{instance['metadata']['namespace']}.virtualclusterinstance.{instance['metadata']['name']}.yaml"
    files = {name: canonical_yaml(instance).encode(), **pack.runtime_tree(plan)}
    return {f"pool/{name}": text for name, text in files.items()}


def kinds(files: Mapping[str, bytes]) -> dict[str, int]:
    """How many objects of each kind there are, by name of kind."""
    found = Counter(match[1].decode() for text in files.values() if (match := _KIND.search(text)))
    return dict(sorted(found.items()))
