"""Everything that creating an endpoint brings into the world, as files: what `plan --out` writes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack

_KIND = re.compile(rb"^kind: (\w+)$", re.MULTILINE)


def endpoint_files(pack: Pack, plan: EndpointPlan) -> dict[str, bytes]:
    """Path -> canonical YAML: `platform/` goes to the control plane cluster, the rest to the delivery repository."""
    files = {f"platform/{name}": text for name, text in pack.placed_files(plan).items()}
    return files if plan.pool else files | pack.runtime_tree(plan)


def kinds(files: Mapping[str, bytes]) -> dict[str, int]:
    """How many objects of each kind there are, by name of kind."""
    found = Counter(match[1].decode() for text in files.values() if (match := _KIND.search(text)))
    return dict(sorted(found.items()))
