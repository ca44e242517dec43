"""The texts of alerts: labels that they print and that their expressions do not keep.

Source: the Prometheus documentation of alerting rules and of aggregation operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, text, texts
from provisioner.lint.world import World

_BY_FIRST = re.compile(r"^\s*(?:sum|avg|max|min|count)\s+by\s*\(([^()]*)\)\s*\(")
_BY_LAST = re.compile(
    r"^\s*(?:sum|avg|max|min|count)\s*\(.*\)\s*by\s*\(([^()]*)\)\s*(?:[<>=!]=?\s*[-0-9.e]+)?\s*$", re.DOTALL
)
_BARE = re.compile(r"^\s*([A-Za-z_:][\w:]*)(?:\{[^{}]*\})?\s*(?:[<>=!]=?\s*[-0-9.e]+)?\s*$")
_JOINED = re.compile(r"\)\s*(?:and|or|unless|[-+*/%^])\s|group_left|group_right")
_LABEL = re.compile(r"\$labels\.(\w+)")


def _kept_labels(expression: str, recorded: Mapping[str, str]) -> set[str] | None:
    """The labels that an expression's series have; None where nobody can tell."""
    bare = _BARE.match(expression)
    if bare is not None:
        inner = recorded.get(bare[1])
        return _kept_labels(inner, {}) if inner else None
    found = _BY_LAST.match(expression)
    if found is None and not _JOINED.search(expression):
        found = _BY_FIRST.match(expression)
    return {name.strip() for name in found[1].split(",") if name.strip()} if found else None


@rule("alert-label-gone", Severity.WARNING)
def alert_label_gone(world: World) -> Iterator[Hit]:
    """The text of an alert prints a label that its expression has added up.

    `sum by (namespace)` leaves `namespace` and nothing else; `{{ $labels.pod }}` is empty, and whoever is woken does
    not know which pod it is.
    """
    for found in world.of_kind("PrometheusRule"):
        groups = [path for path, _ in items(found.value, "spec", "groups")]
        rules = [(path, one) for group in groups for path, one in items(found.value, *group, "rules")]
        recorded = {text(one, "record") or "": text(one, "expr") or "" for _, one in rules if text(one, "record")}
        for path, one in rules:
            kept = _kept_labels(text(one, "expr") or "", recorded) if text(one, "alert") else None
            if kept is None:
                continue
            known = kept | set(texts(one, "labels")) | {"alertname"}
            for part, written in texts(one, "annotations").items():
                for name in dict.fromkeys(_LABEL.findall(written)):
                    if name not in known:
                        message = f"telling of alert: its expression keeps no label `{name}`"
                        fix = f"it keeps: {', '.join(sorted(kept)) or 'none'}"
                        yield Hit(at=found, path=(*path, "annotations", part), message=message, fix=fix)
