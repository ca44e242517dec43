"""Label selectors as objects state them (`matchLabels`, `matchExpressions`). Pure; for all controllers that select."""

from __future__ import annotations

from typing import Any

from provisioner.embedded.controllers.api import Json


def selects(selector: Json, labels: Json) -> bool:
    """Whether a label selector (matchLabels, matchExpressions) selects these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(entry, labels) for entry in selector.get("matchExpressions") or ())


def _expression_holds(entry: Json, labels: Json) -> bool:
    value: Any = labels.get(entry["key"])
    match entry["operator"]:
        case "In":
            return value in entry["values"]
        case "NotIn":
            return value not in entry["values"]
        case "Exists":
            return entry["key"] in labels
        case _:
            return entry["key"] not in labels
