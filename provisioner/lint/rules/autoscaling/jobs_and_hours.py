"""ScaledJobs, and scaling by the clock: what KEDA or the Job controller refuses.

Sources: KEDA's specification of ScaledJobs, its CPU, memory, cron and Prometheus scalers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import RESOURCE_TRIGGERS
from provisioner.lint.joins.schedule import is_cron
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, whole
from provisioner.lint.world import Object, World

_KEDA = "keda.sh"
_KEDA_MOST = 100
"""maxReplicaCount where it is left out."""
_NEEDED = {
    "cron": ("timezone", "start", "end", "desiredReplicas"),
    "prometheus": ("serverAddress", "query", "threshold"),
}


def _jobs(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("ScaledJob") if found.group == _KEDA)


def _triggers(found: Object) -> Iterator[tuple[FieldPath, Mapping[str, Any], Mapping[str, Any]]]:
    """Where each trigger stands, the trigger, and its metadata."""
    for path, trigger in items(found.value, "spec", "triggers"):
        if isinstance(trigger, Mapping):
            yield path, trigger, mapping(trigger, "metadata")


@rule("scaled-job-refused", Severity.ERROR)
def scaled_job_refused(world: World) -> Iterator[Hit]:
    """A ScaledJob makes Jobs that the API server refuses, has reversed bounds, or goes by CPU or memory.

    Pods of a Job restart `Never` or `OnFailure`. CPU and memory are measured by a HorizontalPodAutoscaler, which a
    ScaledJob does not have: those triggers are for ScaledObjects. A Prometheus trigger needs address, query and
    threshold here too.
    """
    for found in _jobs(world):
        yield from _refused_template(found)
        least, most = (whole(found.value, "spec", name) for name in ("minReplicaCount", "maxReplicaCount"))
        if least is not None and most is not None and least > most:
            message = f"scaling {found.name}: minReplicaCount {least} is above maxReplicaCount: `{most}`"
            yield Hit(at=found, path=("spec", "minReplicaCount"), message=message, fix="exchange them")
        for path, trigger, metadata in _triggers(found):
            if text(trigger, "type") in RESOURCE_TRIGGERS:
                message = f"scaling {found.name}: a ScaledJob takes no trigger of type `{trigger['type']}`"
                yield Hit(at=found, path=(*path, "type"), message=message, fix="go by a queue or by Prometheus")
            lacking = [name for name in _NEEDED["prometheus"] if metadata.get(name) in (None, "")]
            if trigger.get("type") == "prometheus" and lacking:
                message = f"scaling {found.name}: a prometheus trigger needs metadata.`{lacking[0]}`"
                yield Hit(at=found, path=(*path, "metadata"), message=message, fix=f"add {lacking[0]}")


def _refused_template(found: Object) -> Iterator[Hit]:
    template = ("spec", "jobTargetRef", "template", "spec")
    policy = look(found.value, *template, "restartPolicy")
    if mapping(found.value, *template) and policy not in ("Never", "OnFailure") and not has_hole(policy):
        message = f"making Jobs for {found.name}: their pods cannot restart `{policy or 'Always'}`"
        yield Hit(at=found, path=(*template, "restartPolicy"), message=message, fix="write restartPolicy: Never")


@rule("scaler-cron-refused", Severity.ERROR)
def scaler_cron_refused(world: World) -> Iterator[Hit]:
    """A cron trigger of KEDA lacks what it needs, or holds what KEDA cannot read.

    timezone, start, end and desiredReplicas are required; start and end are cron expressions of five fields and differ,
    the time zone is one of the IANA database. KEDA refuses the trigger, and the workload stays as it is.
    """
    for found in world.of_kind("ScaledObject", "ScaledJob"):
        for path, trigger, metadata in _triggers(found):
            trouble = _cron_trouble(metadata) if trigger.get("type") == "cron" else None
            if trouble:
                where = (*path, "metadata", trouble[0]) if trouble[0] in metadata else (*path, "metadata")
                yield Hit(at=found, path=where, message=f"scaling {found.name}: {trouble[1]}", fix=trouble[2])


def _cron_trouble(metadata: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The field that is wrong, what is wrong, and what to do."""
    for name in _NEEDED["cron"]:
        if metadata.get(name) in (None, ""):
            return name, f"a cron trigger needs metadata.`{name}`", f"add {name}"
    zone, count = literal(metadata, "timezone"), literal(metadata, "desiredReplicas")
    for name in ("start", "end"):
        written = literal(metadata, name)
        if written is not None and not is_cron(written):
            return name, f"no cron expression of five fields: {shown(written)}", "write such as `0 8 * * 1-5`"
    if literal(metadata, "start") is not None and metadata["start"] == metadata["end"]:
        return "end", f"it starts and ends at the same time: {shown(metadata['end'])}", "give it another end"
    if zone is not None and _zones() and zone not in _zones():
        return "timezone", f"unknown time zone: `{zone}`", "use a name such as Europe/Berlin"
    if count is not None and not count.isdigit():
        return "desiredReplicas", f"the number of replicas is none: `{count}`", "write a number in quotes"
    return None


@rule("scaler-cron-above-maximum", Severity.WARNING)
def scaler_cron_above_maximum(world: World) -> Iterator[Hit]:
    """A cron trigger wants more replicas than its ScaledObject allows.

    `maxReplicaCount`, 100 where it is left out, ends at the HorizontalPodAutoscaler: the hours of the timetable get
    fewer replicas than they say, and nothing tells it.
    """
    for found in world.of_kind("ScaledObject"):
        most = (
            100
            if "maxReplicaCount" not in mapping(found.value, "spec")
            else whole(found.value, "spec", "maxReplicaCount")
        )
        for path, trigger, metadata in _triggers(found) if most is not None else ():
            wanted = str(literal(metadata, "desiredReplicas") or "")
            if trigger.get("type") == "cron" and wanted.isdigit() and int(wanted[:9]) > (most or 0):
                message = f"scaling {found.name}: its cron trigger wants more than maxReplicaCount {most}: `{wanted}`"
                where = (*path, "metadata", "desiredReplicas")
                yield Hit(
                    at=found, path=where, message=message, fix=f"raise maxReplicaCount to {wanted}, or ask for fewer"
                )


@cache
def _zones() -> frozenset[str]:
    """The time zones that this machine knows; none where it has no database of them."""
    found = available_timezones()
    return frozenset({*found, "Local"}) if len(found) > 1 else frozenset()
