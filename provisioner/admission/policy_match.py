"""Which objects a policy has a say in, and the request that its expressions see.

Resource rules and namespace selectors as an API server reads them, for what our policies use; what they do not use is
refused when a policy is loaded. `policy` is the only caller. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NAME = "kubernetes.io/metadata.name"
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked for: the operation, and the object's kind and place."""

    operation: str
    group: str
    version: str
    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, obj: Mapping[str, Any], operation: str) -> Subject:
        """The subject of an object; what is missing or of another type is empty."""
        group, _, version = _text(obj.get("apiVersion")).rpartition("/")
        metadata = obj.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        labels = metadata.get("labels")
        return cls(
            operation=operation,
            group=group,
            version=version,
            kind=_text(obj.get("kind")),
            name=_text(metadata.get("name")),
            namespace=_text(metadata.get("namespace")),
            labels=labels if isinstance(labels, Mapping) else {},
        )

    @property
    def resource(self) -> str:
        """The plural under which the API serves the kind."""
        kind = self.kind.lower()
        if kind.endswith("y") and kind[-2:-1] not in "aeiou":
            return f"{kind[:-1]}ies"
        return f"{kind}es" if kind.endswith(("s", "x", "ch")) else f"{kind}s"

    def selected_labels(self, namespace_labels: Mapping[str, str]) -> Mapping[str, str] | None:
        """The labels that a namespace selector is held against; None for what no selector keeps out."""
        if self.kind == "Namespace":
            return {**self.labels, _NAME: self.name}
        return {**namespace_labels, _NAME: self.namespace} if self.namespace else None

    def names(
        self,
        obj: Mapping[str, Any],
        *,
        old: Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
        namespace_labels: Mapping[str, str],
    ) -> Mapping[str, Any]:
        """What expressions may name, each as an API server fills it."""
        ends = self.operation == "DELETE"
        labels = self.selected_labels(namespace_labels)
        return {
            "object": None if ends else obj,
            "oldObject": obj if ends else old,
            "params": params,
            "namespaceObject": {"metadata": {"name": self.namespace, "labels": labels}} if self.namespace else None,
            "request": {
                "operation": self.operation,
                "kind": {"group": self.group, "version": self.version, "kind": self.kind},
                "name": self.name,
                "namespace": self.name if self.kind == "Namespace" else self.namespace,
            },
        }


@dataclass(frozen=True, slots=True)
class Match:
    """The match constraints of a policy."""

    rules: tuple[tuple[frozenset[str], frozenset[str], frozenset[str]], ...]
    expressions: tuple[tuple[str, str, frozenset[str]], ...]

    @classmethod
    def of(cls, constraints: Mapping[str, Any]) -> Match:
        """The constraints as a policy writes them. Raises ValueError or KeyError for what is not known here."""
        _only(constraints, {"resourceRules", "namespaceSelector"})
        selector = constraints.get("namespaceSelector", {})
        _only(selector, {"matchExpressions"})
        rules = []
        for rule in constraints["resourceRules"]:
            _only(rule, {"apiGroups", "apiVersions", "operations", "resources"})
            # No versions: an API server converts, and asks the policy whichever version is written.
            rules.append((frozenset(rule["apiGroups"]), frozenset(rule["operations"]), frozenset(rule["resources"])))
        expressions = tuple(
            (entry["key"], entry["operator"], frozenset(entry.get("values", ())))
            for entry in selector.get("matchExpressions", ())
        )
        unknown = [operator for _, operator, _ in expressions if operator not in _OPERATORS]
        if unknown:
            raise ValueError(f"unknown operator: {unknown[0]}")
        return cls(rules=tuple(rules), expressions=expressions)

    def covers(self, subject: Subject, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the policy is asked about the subject."""
        asked = any(
            subject.group in groups and subject.operation in operations and subject.resource in resources
            for groups, operations, resources in self.rules
        )
        labels = subject.selected_labels(namespace_labels)
        return asked and (labels is None or all(_holds(labels, *entry) for entry in self.expressions))


def _holds(labels: Mapping[str, str], key: str, operator: str, values: frozenset[str]) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) is (operator == "Exists")


def _only(value: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(value.keys() - known)
    if unknown:
        raise ValueError(f"a match constraint that offline evaluation does not know: {unknown[0]}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
