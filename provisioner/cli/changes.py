"""How commands show what would change on a server: a line per object, and below it a line per field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.rendering.diff import differences

if TYPE_CHECKING:
    from provisioner.platform.publish import Change
    from provisioner.wiring.publishing import Proposal

_OF_THE_SERVER = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})


def print_publication(proposal: Proposal) -> None:
    """What publishing a tier would do to a control plane cluster, on standard output."""
    changes = proposal.publication.changes
    lines = [line for change in changes for line in _lines(change)]
    told = f"{len(changes)} objects" + ("" if lines else ", nothing changes")
    print(f"tier {proposal.tier} {proposal.version} on {proposal.control_plane}: {told}")
    for line in lines:
        print(f"  {line}")


def _lines(change: Change) -> list[str]:
    name = f"{change.ref.kind.kind}/{change.ref.name}"
    if change.before is None:
        return [f"+ {name}"]
    if change.after is None:
        return [f"- {name}"]
    fields = [str(difference) for difference in differences(_written(change.before), _written(change.after))]
    return [f"± {name}", *(f"    {field}" for field in fields)] if fields else []


def _written(manifest: Any) -> dict[str, Any]:
    """The object without what the server says of it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _OF_THE_SERVER}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}
