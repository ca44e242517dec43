"""PrometheusRules: what the operator's webhook and Prometheus refuse when they load them.

Sources: the Prometheus documentation of rules and templates, and `rulefmt`, which reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_DURATION = re.compile(r"0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?")
_KNOWN = ("labels", "value", "externalLabels", "externalURL")
_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")
_ASSIGNED = re.compile(r"\$([A-Za-z_]\w*)\s*(?:,\s*\$([A-Za-z_]\w*)\s*)?:=")


def _groups(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for found in world.of_kind("PrometheusRule"):
        for path, group in items(found.value, "spec", "groups"):
            if isinstance(group, Mapping):
                yield found, path, group


def _rules(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for found, path, group in _groups(world):
        for place, entry in items(group, "rules"):
            if isinstance(entry, Mapping):
                yield found, (*path, *place), entry


@rule("alert-and-record", Severity.ERROR)
def alert_and_record(world: World) -> Iterator[Hit]:
    """A rule of a PrometheusRule is an alert and a recording at once, neither of them, or mixes their fields.

    Prometheus refuses the file as a whole: `only one of 'record' and 'alert' must be set`, and `invalid field 'for' in
    recording rule`. The operator's webhook says so at once, where it is installed.
    """
    for found, path, entry in _rules(world):
        kinds = [name for name in ("alert", "record") if entry.get(name)]
        wrong = [name for name in ("for", "keep_firing_for", "annotations") if entry.get(name)]
        if len(kinds) != 1:
            message = f"reading rule: it needs one of `alert` and `record`, and has {' and '.join(kinds) or 'none'}"
            yield Hit(at=found, path=path, message=message, fix="write two rules" if kinds else "add `alert`")
        elif kinds == ["record"] and wrong:
            message = f"reading rule: a recording has no `{wrong[0]}`"
            yield Hit(at=found, path=(*path, wrong[0]), message=message, fix="remove it, or make the rule an alert")


@rule("alert-duration-malformed", Severity.ERROR)
def alert_duration_malformed(world: World) -> Iterator[Hit]:
    """A duration of a PrometheusRule is none.

    Prometheus' durations are whole numbers with units from the largest to the smallest: `5m`, `1h30m`, `1d`. There are
    no fractions, spaces or words; the API server refuses the object.
    """
    places = [(found, (*path, "interval"), group.get("interval")) for found, path, group in _groups(world)]
    for name in ("for", "keep_firing_for"):
        places += [(found, (*path, name), entry.get(name)) for found, path, entry in _rules(world)]
    for found, path, written in places:
        if isinstance(written, str) and not has_hole(written) and (not written or not _DURATION.fullmatch(written)):
            message = f"reading rule: no duration: {shown(written)}"
            yield Hit(at=found, path=path, message=message, fix="write such as `5m` or `1h30m`")


@rule("alert-group-twice", Severity.ERROR)
def alert_group_twice(world: World) -> Iterator[Hit]:
    """Two groups of one PrometheusRule have the same name.

    Prometheus refuses the file: `groupname … is repeated in the same file`.
    """
    seen: set[tuple[int, str]] = set()
    for found, path, group in _groups(world):
        name = literal(group, "name")
        if name is not None and (id(found), name) in seen:
            message = f"reading rules: a group of the same object has this name: `{name}`"
            yield Hit(at=found, path=(*path, "name"), message=message, fix="give the group another name, or join both")
        seen.add((id(found), name or ""))


_RECORDED = re.compile(r"(?<![\w:])[a-zA-Z_]\w*:\w+:\w+(?![\w:])")
"""A name in the form of recordings: level, metric and operation."""


@rule("alert-of-unrecorded-series", Severity.WARNING)
def alert_of_unrecorded_series(world: World) -> Iterator[Hit]:
    """A rule reads a recorded series that no rule of the folder records, though one of nearly that name is recorded.

    The expression finds nothing, so the alert never fires.
    """
    recorded = {name for _, _, entry in _rules(world) if (name := literal(entry, "record"))}
    for found, path, entry in _rules(world) if recorded else ():
        written = literal(entry, "expr") or ""
        for name in dict.fromkeys(_RECORDED.findall(written)):
            near = nearest_name(name, sorted(recorded)) if name not in recorded else None
            if near:
                message = f"reading series: no rule records this one: `{name}`"
                yield Hit(at=found, path=(*path, "expr"), message=message, fix=f"did you mean {near}?")


@rule("alert-variable-unknown", Severity.ERROR)
def alert_variable_unknown(world: World) -> Iterator[Hit]:
    """A text of an alert uses a variable that Prometheus does not have.

    There are `$labels`, `$value`, `$externalLabels` and `$externalURL`, and those that the text itself sets. With any
    other Prometheus refuses the file: `undefined variable`.
    """
    for found, path, entry in _rules(world):
        for part in ("annotations", "labels"):
            for key in mapping(entry, part):
                written = look(entry, part, key)
                for name in dict.fromkeys(_unknown(written)) if isinstance(written, str) else ():
                    near = nearest_name(name, _KNOWN)
                    message = f"filling in alert: Prometheus has no variable `${name}`"
                    fix = f"did you mean ${near}?" if near else "use $labels or $value"
                    yield Hit(at=found, path=(*path, part, key), message=message, fix=fix)


def _unknown(written: str) -> Iterator[str]:
    actions = _ACTION.findall(written)
    own = {name for action in actions for names in _ASSIGNED.findall(action) for name in names}
    for action in actions:
        bare = re.sub(r"\"(?:\\.|[^\"\\])*\"|`[^`]*`", "", action)
        yield from (name for name in _VARIABLE.findall(bare) if name not in own and name not in _KNOWN)
