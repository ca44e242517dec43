"""Differences that Argo CD is told to ignore, and what it takes back because nobody told it so.

`ignoreDifferences` entries choose objects by group, kind, name and namespace, and fields by JSON pointer, jq or
manager.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import App, applications
from provisioner.lint.joins.deliveries import Delivery, deliveries
from provisioner.lint.joins.differences import MEANS, ignores_replicas, is_chosen
from provisioner.lint.joins.scaling import WORKLOADS, scaler_of
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.argocd._jq import jq_trouble
from provisioner.lint.values import has_hole, items, literal, look, text
from provisioner.lint.world import World

_GROUPS: Mapping[str, str] = {
    "ConfigMap": "",
    "CronJob": "batch",
    "CustomResourceDefinition": "apiextensions.k8s.io",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "HTTPRoute": "gateway.networking.k8s.io",
    "HorizontalPodAutoscaler": "autoscaling",
    "Job": "batch",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io",
    "NetworkPolicy": "networking.k8s.io",
    "PersistentVolumeClaim": "",
    "PodDisruptionBudget": "policy",
    "ReplicaSet": "apps",
    "ScaledObject": "keda.sh",
    "Secret": "",
    "Service": "",
    "ServiceAccount": "",
    "StatefulSet": "apps",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io",
}
"""The API group of kinds whose name no other group uses."""
_SLASHED = re.compile(r"/(?:[^/]+/)*metadata/(?:annotations|labels)/[^/]+/.+")
_WORKLOAD_FIELDS = (
    "replicas",
    "selector",
    "template",
    "strategy",
    "updateStrategy",
    "minReadySeconds",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
    "serviceName",
    "podManagementPolicy",
    "volumeClaimTemplates",
    "persistentVolumeClaimRetentionPolicy",
    "ordinals",
)
_PLAIN = re.compile(r"(\.[A-Za-z_]\w*)+")
"""A jq expression that is a path of names."""
_SCALED = (*WORKLOADS, "Rollout")


def _entries(world: World) -> Iterator[tuple[App, FieldPath, Mapping[str, Any]]]:
    for app in applications(world):
        for path, item in items(app.spec, "ignoreDifferences"):
            if isinstance(item, Mapping):
                yield app, app.at_path(*path), item


@rule("ignore-difference-wrong-group", Severity.ERROR)
def ignore_difference_wrong_group(world: World) -> Iterator[Hit]:
    """An ignored difference names a kind in a group where it does not exist, so it matches nothing.

    A Deployment is in group `apps`, a Service in the core group, which is left out. The version is no part of it: group
    `apps/v1` or `v1` matches nothing. Argo CD says nothing about it (user guide, Diff Customization).
    """
    for app, path, entry in _entries(world):
        group, kind = text(entry, "group") or "", literal(entry, "kind")
        if kind is None or kind not in _GROUPS or group in (_GROUPS[kind], "*") or has_hole(group):
            continue
        right = _GROUPS[kind]
        yield Hit(
            at=app.at,
            path=(*path, "group") if group else path,
            message=f"ignoring differences of {kind}: it is not in group: `{group}`",
            fix=f"write `group: {right}`" if right else "leave `group` out",
        )


@rule("ignore-difference-pointer", Severity.ERROR)
def ignore_difference_pointer(world: World) -> Iterator[Hit]:
    """A pointer or an expression of an ignored difference is malformed, so it matches nothing.

    A JSON pointer (RFC 6901) begins with `/`, parts its keys with `/`, knows no `*`, and writes a slash within a key as
    `~1` and a tilde as `~0`. A jq expression begins with a dot, closes its brackets and quotes, and leads to a field:
    `.a == "b"` is a truth, `.a | select(. == "b")` a field.
    """
    for app, path, entry in _entries(world):
        for inner, pointer in items(entry, "jsonPointers"):
            is_written = isinstance(pointer, str) and not has_hole(pointer)
            trouble = _pointer_trouble(pointer) or _unknown_field(entry, pointer) if is_written else None
            if trouble:
                yield _malformed(app, (*path, *inner), pointer, *trouble)
        for inner, expression in items(entry, "jqPathExpressions"):
            if isinstance(expression, str) and expression.startswith("/"):
                trouble = "it is a pointer, no jq expression", "move it to `jsonPointers`"
                yield _malformed(app, (*path, *inner), expression, *trouble)
            elif isinstance(expression, str) and re.match(r"[A-Za-z]+(\.|\[|$)", expression):
                yield _malformed(app, (*path, *inner), expression, "it begins without a dot", f"write `.{expression}`")
            elif isinstance(expression, str) and not has_hole(expression) and (wrong := jq_trouble(expression)):
                yield _malformed(app, (*path, *inner), expression, *wrong)


def _malformed(app: App, path: FieldPath, written: str, trouble: str, fix: str) -> Hit:
    return Hit(at=app.at, path=path, message=f"ignoring difference: {trouble}: `{written}`", fix=fix)


def _pointer_trouble(pointer: str) -> tuple[str, str] | None:
    """What is wrong with a JSON pointer and how it is right."""
    if not pointer.startswith("/"):
        parts = [part for part in re.split(r"[./]", pointer.replace("$", "")) if part]
        return "a pointer begins with a slash", f"write `/{'/'.join(parts)}`"
    if re.search(r"~(?![01])", pointer):
        return "a tilde is written `~0`, a slash within a key `~1`", "escape the key"
    if "*" in pointer.split("/"):
        return "a pointer knows no `*`", f"use `jqPathExpressions: ['{_as_jq(pointer)}']`"
    if re.match(r"/[a-z][A-Za-z]*\.[A-Za-z.]+$", pointer):
        return "keys are parted by slashes", f"write `{pointer.replace('.', '/')}`"
    if _SLASHED.fullmatch(pointer):
        return "the slash within the key is written `~1`", "escape the slash of the key as `~1`"
    return None


def _unknown_field(entry: Mapping[str, Any], pointer: str) -> tuple[str, str] | None:
    """A field of a workload's spec that does not exist, and the one that was meant."""
    found = re.match(r"/spec/([^/]+)", pointer)
    if not found or text(entry, "kind") not in ("Deployment", "StatefulSet") or found[1] in _WORKLOAD_FIELDS:
        return None
    near = nearest_name(found[1], _WORKLOAD_FIELDS)
    return (f"there is no such field in {entry['kind']}", f"write `/spec/{near}`") if near else None


def _as_jq(pointer: str) -> str:
    return "".join("[]" if part == "*" else f".{part}" for part in pointer.split("/")[1:])


@rule("ignore-difference-of-no-field", Severity.ERROR)
def ignore_difference_of_no_field(world: World) -> Iterator[Hit]:
    """An ignored difference names no field at all, so it ignores nothing.

    An entry needs `jsonPointers`, `jqPathExpressions` or `managedFieldsManagers`. To leave a whole object alone use the
    annotation `argocd.argoproj.io/compare-options: IgnoreExtraneous` or do not deliver it.
    """
    for app, path, entry in _entries(world):
        if not any(entry.get(key) for key in MEANS):
            yield Hit(
                at=app.at,
                path=path,
                message=f"ignoring differences of {text(entry, 'kind') or 'objects'}: no field is named: `{app.name}`",
                fix="add `jsonPointers`, such as `/spec/replicas`",
            )


@rule("ignore-difference-matches-nothing", Severity.WARNING)
def ignore_difference_matches_nothing(world: World) -> Iterator[Hit]:
    """An ignored difference chooses no object of its Application.

    Group, kind, name and namespace must all fit one object that the Application delivers; as a rule it was renamed.
    Only said when everything that the Application delivers stands below the linted path, or a name is nearly right.
    """
    for app, delivery in deliveries(world):
        for path, entry in items(app.spec, "ignoreDifferences") if delivery.objects else ():
            if isinstance(entry, Mapping) and _chooses_nothing(entry, app, delivery):
                named = " ".join(word for word in (text(entry, "kind"), text(entry, "name")) if word)
                yield Hit(
                    at=app.at,
                    path=app.at_path(*path),
                    message=f"ignoring differences: application `{app.name}` delivers no such object: `{named}`",
                    fix="name group, kind, name and namespace as the delivered object has them, or remove the entry",
                )


def _chooses_nothing(entry: Mapping[str, Any], app: App, delivery: Delivery) -> bool:
    """Whether an entry certainly chooses none of the delivered objects."""
    if any(is_chosen(entry, app, found) for found in delivery.objects):
        return False
    names = [found.name for found in delivery.objects if found.kind == text(entry, "kind")]
    return (delivery.is_whole and not delivery.is_renamed) or nearest_name(text(entry, "name") or "", names) is not None


@rule("ignore-difference-not-respected", Severity.WARNING)
def ignore_difference_not_respected(world: World) -> Iterator[Hit]:
    """An ignored difference is ignored in the diff only, and overwritten at the next sync.

    Without `RespectIgnoreDifferences=true` a sync applies the manifest as it is: the field that another controller
    set goes back to what stands in Git each time anything changes (user guide, Sync Options). Fields that Git leaves
    out are not touched, so nothing is said where the folder shows that, nor of Applications that are synced by hand.
    """
    shown = dict(deliveries(world))
    for app, path, entry in _entries(world):
        fields = _fields(entry)
        if app.automated is None or app.options.get("RespectIgnoreDifferences") == "true" or not fields:
            continue
        delivery = shown.get(app)
        if delivery is None or _sets_ignored(entry, fields, app, delivery):
            yield Hit(
                at=app.at,
                path=path,
                message=f"ignoring differences: each sync overwrites the field all the same: `{app.name}`",
                fix="add `RespectIgnoreDifferences=true` to `syncOptions`, or leave the field out of the manifest",
            )


def _sets_ignored(entry: Mapping[str, Any], fields: Sequence[FieldPath], app: App, delivery: Delivery) -> bool:
    """Whether a delivered object sets a field that an entry ignores."""
    chosen = [found for found in delivery.objects if is_chosen(entry, app, found)]
    return any(look(found.value, *keys) is not None for found in chosen for keys in fields)


def _fields(entry: Mapping[str, Any]) -> list[FieldPath]:
    """The fields that an entry ignores, as far as pointers and plain jq paths tell."""
    pointers = [_keys(pointer) for _, pointer in items(entry, "jsonPointers") if isinstance(pointer, str)]
    plain = [item for _, item in items(entry, "jqPathExpressions") if isinstance(item, str) and _PLAIN.fullmatch(item)]
    return pointers + [tuple(item.split(".")[1:]) for item in plain]


def _keys(pointer: str) -> FieldPath:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return tuple(int(part) if part.isdecimal() else part for part in parts)


@rule("sync-undoes-scaling", Severity.ERROR)
def sync_undoes_scaling(world: World) -> Iterator[Hit]:
    """An Application heals the number of replicas that an autoscaler sets.

    The manifest has `replicas` and the Application `selfHeal`: whenever the scaler changes the number Argo CD sets it
    back, within seconds, and models are stopped and loaded over and over. Leave `replicas` out, or ignore the
    difference.
    """
    for app, delivery in deliveries(world):
        for found in delivery.objects if app.heals else ():
            is_fixed = found.kind in _SCALED and look(found.value, "spec", "replicas") is not None
            scaler = scaler_of(world, found, namespace=found.namespace or app.namespace) if is_fixed else None
            if scaler and not ignores_replicas(app, found):
                yield Hit(
                    at=found,
                    path=("spec", "replicas"),
                    message=f"healing replicas by application `{app.name}`: the number belongs to: `{scaler.at.title}`",
                    fix="leave `spec.replicas` out of the manifest, or add `/spec/replicas` to `ignoreDifferences`",
                )
