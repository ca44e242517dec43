"""Values that Argo CD hands to a chart: switches that are texts, and therefore on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import App, applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import World
from provisioner.lint.yaml_text import parse_documents

_SWITCH = re.compile(r"(^|\.)(enabled?|disabled?|create|install|automount\w*)$|[a-z](Enabled?|Disabled?|Create)$")
_FREE = re.compile(
    r"(annotations|labels|selector|envs?|envvars|configs?|configmap|params|data|cm|args|settings)$", re.IGNORECASE
)
"""Under these a chart copies texts as they are, or wants them."""
_OFF = "false"


@rule("helm-switch-as-text", Severity.WARNING)
def helm_switch_as_text(world: World) -> Iterator[Hit]:
    """A switch of a chart is a text, and a text that is not empty is true.

    `{{ if .Values.enabled }}` asks whether there is something: `enabled: "false"` switches on what it was meant to
    switch off. Quotes are right only where the chart copies the value, as in annotations and environment variables;
    `forceString: true` makes a text of a parameter too.
    """
    for app in applications(world):
        for source in app.sources:
            base = (*source.path, "helm")
            helm = mapping(source.value, "helm")
            for path, written in _switches(helm.get("valuesObject"), (*base, "valuesObject")):
                yield _told(app, path, written)
            for written in _within(app, helm):
                yield _told(app, (*base, "values"), written)
            for path, item in items(helm, "parameters"):
                name, value = literal(item, "name") or "", literal(item, "value")
                if look(item, "forceString") is True and value == _OFF and _SWITCH.search(name):
                    yield _told(app, (*base, *path), value)


def _within(app: App, helm: Mapping[str, Any]) -> Iterator[str]:
    """The switches in a text of values."""
    written = text(helm, "values")
    if written and not has_hole(written) and ('"' in written or "'" in written):
        for document in parse_documents(written, file=app.at.file):
            for path, value in _switches(document.value, ()):
                yield f"{dotted(path)}: {value}"


def _switches(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(key, str) or _FREE.search(key):
            continue
        if isinstance(item, Mapping):
            yield from _switches(item, (*path, key))
        elif isinstance(item, str) and item == _OFF and _SWITCH.search(key):
            yield (*path, key), item


def _told(app: App, path: FieldPath, written: str) -> Hit:
    return Hit(
        at=app.at,
        path=path,
        message=f"reading values of application `{app.name}`: a switch is a text, so it is on: `{written}`",
        fix="write true or false without quotes",
    )
