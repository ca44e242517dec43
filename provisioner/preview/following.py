"""Which of what is published with a tier an endpoint follows: its pinned version, and the nodes that it stands on.

Called by `impact`. Pure.
"""

from __future__ import annotations

import re

from provisioner.domain.plan import EndpointPlan
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.placeholders import dashed
from provisioner.preview.report import FieldChange, ObjectChange

_PINNED = re.compile(r"spec\.versions\[([^]]+)\]")
_VERSIONED = re.compile(r"-[0-9]+-[0-9]+-[0-9]+$")
_NODE_TYPE = re.compile(r"spec\.(?:\w+\.)?nodeTypes\[([^]]+)\]")
NODE_PROVIDER = "NodeProvider"
"""Belongs to the site: tiers publish it together, and one that goes leaves it standing."""


def nodes_of(plan: EndpointPlan | None) -> str:
    """The full node type that an endpoint's tenant cluster stands on alone, empty where that is not known or where
    others decide about its nodes too."""
    return plan.capacity.node_type if plan and plan.tenancy == "endpoint" else ""


def follows(change: ObjectChange, field: FieldChange, *, version: str, nodes: str) -> bool:
    """Whether an endpoint follows a field of what its tier publishes; `version` is what it pins, `nodes` as `nodes_of`
    has it."""
    if change.kind == NODE_PROVIDER and nodes:
        return _touched(change, field) in (nodes, nodes.partition(".")[0])
    if field.reach is Reach.VERSION or not version:
        return True
    pinned = _PINNED.match(field.path)
    if pinned:
        return pinned[1] == version
    return not _VERSIONED.search(change.name) or change.name.endswith(dashed(version))


def reason_of(change: ObjectChange, field: FieldChange) -> str:
    """Why a field does what it does; of a node provider's with the nodes that are meant."""
    if change.kind == NODE_PROVIDER and field.effect is Effect.NODES_REPLACED:
        return f"`{_touched(change, field)}`: {field.reason}"
    return field.reason


def _touched(change: ObjectChange, field: FieldChange) -> str:
    """The node type, by its full name, that a field of a provider is about; the provider for one that is about all."""
    provider = change.renamed_from or change.name
    found = _NODE_TYPE.match(field.path)
    return f"{provider}.{found[1]}" if found else provider
