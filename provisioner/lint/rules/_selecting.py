"""Label selectors of Gateways, tried on the labels of Namespaces. No rules here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.lint.values import items, mapping, text


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector chooses these labels; an expression that cannot be read does."""
    if any(
        isinstance(value, str) and labels.get(key) != value for key, value in mapping(selector, "matchLabels").items()
    ):
        return False
    for _, expression in items(selector, "matchExpressions"):
        key, operator = text(expression, "key") or "", text(expression, "operator")
        values = [item for _, item in items(expression, "values")]
        refused = {
            "In": labels.get(key) not in values,
            "NotIn": key in labels and labels[key] in values,
            "Exists": key not in labels,
            "DoesNotExist": key in labels,
        }
        if refused.get(operator or "", False):
            return False
    return True
