"""A project's fences: how many of what, which templates and which node types. Pure.

The real Platform refuses at its API; the embedded one sits behind an API server that knows no projects, so the
controllers refuse with the same text one step later, before anything is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.embedded.controllers.api import Json, spec_of


def find_denial(project: Json, what: str, used: Mapping[str, int]) -> str | None:
    """The Platform's denial text for creating one more `what` (a kind in lower case), or None when it fits.

    `used` is what exists already, for each quota key that the new one counts towards.
    """
    limits = project_limits(project)
    for key, count in used.items():
        if key in limits and not limits[key].isdecimal():
            return f"metadata.name: Forbidden: cannot create {what}, because project {key} limit is no number"
        if key in limits and count + 1 > int(limits[key]):
            return (
                f"metadata.name: Forbidden: cannot create {what}, "
                f"because project {key} limit of {limits[key]} would be exceeded"
            )
    return None


def project_limits(project: Json) -> Mapping[str, str]:
    """The project's own limits by quota key."""
    limits: Mapping[str, str] = (spec_of(project).get("quotas") or {}).get("project") or {}
    return limits


def count_used(key: str, *, instances: Sequence[Json] = (), claims: Sequence[Json] = ()) -> int:
    """What a project uses of one quota key; 0 for keys that the agent enforces on the host namespace."""
    kind, _, chosen = key.partition("=")
    match kind:
        case "virtualclusterinstances" | "virtualclusterinstances.active":
            return len(instances)
        case "virtualclusterinstances.template":
            return sum((spec_of(instance).get("templateRef") or {}).get("name") == chosen for instance in instances)
        case "nodeclaims":
            return len(claims)
        case "nodeclaims.provider":
            return sum(spec_of(claim).get("providerRef") == chosen for claim in claims)
        case _:
            return 0


def allows_template(project: Json, name: str) -> bool:
    """Whether the project may use this tenant cluster template; `*` stands for all, no list for all."""
    allowed = spec_of(project).get("allowedTemplates")
    if allowed is None:
        return True
    named = {
        entry["name"] for entry in allowed if entry.get("kind", "VirtualClusterTemplate") == "VirtualClusterTemplate"
    }
    return name in named or "*" in named


def allows_node_type(project: Json, name: str) -> bool:
    """Whether the project may claim this node type (full name): no list allows all, an empty one none, an entry names
    one type or, ending in `.*`, all of a provider."""
    allowed = spec_of(project).get("allowedNodeTypes")
    if allowed is None:
        return True
    return any(
        name == entry["name"] or (entry["name"].endswith(".*") and name.startswith(entry["name"][:-1]))
        for entry in allowed
    )
