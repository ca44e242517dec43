"""Which objects and fields an Application's `ignoreDifferences` are about. Pure; no rules stand here.

An entry chooses objects by group, kind, name and namespace, and fields by JSON pointer, jq or manager. The rules about
differences and about autoscalers look through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.lint.joins.applications import App
from provisioner.lint.values import items, text
from provisioner.lint.world import Object, same_namespace

MEANS = ("jsonPointers", "jqPathExpressions", "managedFieldsManagers")
"""The fields of an entry that choose fields of objects."""


def is_chosen(entry: Mapping[str, Any], app: App, found: Object) -> bool:
    """Whether an entry chooses an object."""
    group, kind, name = text(entry, "group") or "", text(entry, "kind") or "", text(entry, "name")
    is_kind = (group in ("*", found.group)) and (kind in ("*", found.kind))
    namespace = text(entry, "namespace")
    return (
        is_kind
        and (not name or name == found.name)
        and (not namespace or same_namespace(found.namespace or app.namespace, namespace))
    )


def ignores_replicas(app: App, found: Object) -> bool:
    """Whether an Application leaves the number of replicas to others."""
    for _, entry in items(app.spec, "ignoreDifferences"):
        if isinstance(entry, Mapping) and is_chosen(entry, app, found):
            fields = [item for key in MEANS[:2] for _, item in items(entry, key)]
            if any(isinstance(item, str) and "replicas" in item for item in fields) or entry.get(MEANS[2]):
                return True
    return False
