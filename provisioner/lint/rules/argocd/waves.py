"""The order in which Argo CD applies the objects of one Application: waves and hooks that wait for what comes later.

Argo CD applies wave by wave and waits until everything of a wave is healthy (user guide, Sync Phases and Waves).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import annotated, annotation, is_hook, wave
from provisioner.lint.joins.deliveries import deliveries
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import POD_TEMPLATES, Object, World, same_namespace

_MAKERS: tuple[tuple[str, FieldPath], ...] = (
    ("ExternalSecret", ("target", "name")),
    ("Certificate", ("secretName",)),
    ("SealedSecret", ("template", "metadata", "name")),
)
_WAVE: FieldPath = ("metadata", "annotations", "argocd.argoproj.io/sync-wave")


@lru_cache(maxsize=2)
def _synced_together(world: World) -> tuple[Sequence[Object], ...]:
    """The objects that one sync applies: those of an Application, else those of one folder."""
    groups: list[Sequence[Object]] = [delivery.objects for _, delivery in deliveries(world)]
    taken = {id(found) for group in groups for found in group}
    rest: dict[str, list[Object]] = {}
    for found in annotated(world):
        is_ordered = annotation(found, "sync-wave") or annotation(found, "hook")
        if id(found) not in taken and found.inside is None and is_ordered:
            rest.setdefault(found.folder, []).append(found)
    for found in world.objects if rest else ():
        folder = found.folder
        is_ordered = annotation(found, "sync-wave") or annotation(found, "hook")
        if folder in rest and id(found) not in taken and not is_ordered:
            rest[folder].append(found)
    return (*groups, *rest.values())


@rule("sync-wave-order", Severity.ERROR)
def sync_wave_order(world: World) -> Iterator[Hit]:
    """A CustomResourceDefinition or a Namespace comes in a later wave than what needs it.

    Argo CD applies the earlier wave first: the API server does not know the kind, or the namespace, and the sync fails
    before it ever reaches the later wave. Within one wave Argo CD sorts by kind and gets it right.
    """
    for group in _synced_together(world):
        definitions = {
            (text(found.value, "spec", "group") or "", text(found.value, "spec", "names", "kind") or ""): found
            for found in group
            if found.kind == "CustomResourceDefinition"
        }
        namespaces = {found.name: found for found in group if found.kind == "Namespace"}
        for found in group:
            for needed in (definitions.get((found.group, found.kind)), namespaces.get(found.namespace or "")):
                if needed and not is_hook(needed) and not is_hook(found) and wave(needed) > wave(found):
                    yield Hit(
                        at=needed,
                        path=_WAVE,
                        message=(
                            f"ordering wave {wave(needed)} of {needed.title}: wave {wave(found)} needs it already:"
                            f" `{found.title}`"
                        ),
                        fix=f"give it a wave of at most {wave(found)}, or `{found.title}` one after {wave(needed)}",
                    )


def _needs(found: Object) -> Iterator[tuple[str, str]]:
    """The kinds and names of what an object's pods cannot start without."""
    for path in POD_TEMPLATES.get(found.kind, ()):
        spec = mapping(found.value, *path, "spec")
        account = text(spec, "serviceAccountName")
        if account and account != "default":
            yield "ServiceAccount", account
        for _, volume in items(spec, "volumes"):
            yield from _named(volume, ("persistentVolumeClaim", "claimName"), "PersistentVolumeClaim")
            yield from _named(volume, ("configMap", "name"), "ConfigMap")
            yield from _named(volume, ("secret", "secretName"), "Secret")
        for part in ("initContainers", "containers"):
            for _, container in items(spec, part):
                for _, source in items(container, "envFrom"):
                    yield from _named(source, ("configMapRef", "name"), "ConfigMap")
                    yield from _named(source, ("secretRef", "name"), "Secret")
                for _, variable in items(container, "env"):
                    yield from _named(variable, ("valueFrom", "configMapKeyRef", "name"), "ConfigMap")
                    yield from _named(variable, ("valueFrom", "secretKeyRef", "name"), "Secret")


def _named(value: Any, path: FieldPath, kind: str) -> Iterator[tuple[str, str]]:
    name = text(value, *path)
    if name and look(value, *path[:-1], "optional") is not True:
        yield kind, name


def _by_name(group: Sequence[Object]) -> Mapping[tuple[str, str], Object]:
    """The objects by what they are or make, such as a Secret that an ExternalSecret makes."""
    made = {
        ("Secret", text(found.value, "spec", *path) or found.name): found
        for found in group
        for kind, path in _MAKERS
        if found.kind == kind
    }
    return {**made, **{(found.kind, found.name): found for found in group}}


@rule("sync-wave-deadlock", Severity.ERROR)
def sync_wave_deadlock(world: World) -> Iterator[Hit]:
    """A workload waits for an object of a later wave, which waits for the workload.

    Argo CD starts the next wave only when everything of this one is healthy. Pods that need a ConfigMap, Secret,
    ServiceAccount or volume claim of a later wave never start, so that wave never comes.
    """
    for group in _synced_together(world):
        known = _by_name(group)
        for found in group:
            if is_hook(found):
                continue
            for need in dict.fromkeys(_needs(found)):
                other = known.get(need)
                if other and not is_hook(other) and wave(other) > wave(found):
                    yield Hit(
                        at=other,
                        path=_WAVE,
                        message=(
                            f"ordering wave {wave(other)} of {other.title}: wave {wave(found)} waits for it:"
                            f" `{found.title}`"
                        ),
                        fix=f"give it a wave of at most {wave(found)}",
                    )


@rule("hook-needs-later-object", Severity.ERROR)
def hook_needs_later_object(world: World) -> Iterator[Hit]:
    """A hook before the sync needs an object that only the sync makes.

    PreSync hooks run to their end before any other object is applied. On the first sync the ConfigMap, Secret,
    ServiceAccount or volume claim that its pods mount does not exist, the hook never ends, and nothing is ever applied.
    So it is with a hook of a later wave.
    """
    for group in _synced_together(world):
        known = _by_name(group)
        for found in group:
            if "PreSync" not in (annotation(found, "hook") or "").replace(" ", "").split(","):
                continue
            for need in dict.fromkeys(_needs(found)):
                other = known.get(need)
                is_later = other is not None and (not is_hook(other) or _comes_later(other, found))
                if other and is_later and same_namespace(other.namespace, found.namespace):
                    yield Hit(
                        at=found,
                        path=("metadata", "annotations", "argocd.argoproj.io/hook"),
                        message=f"running {found.title} before the sync: what it needs comes later: `{other.title}`",
                        fix="make that object a PreSync hook of an earlier wave too, or the Job a Sync hook",
                    )


def _comes_later(other: Object, found: Object) -> bool:
    """Whether one hook before the sync comes in a later wave than another."""
    phases = (annotation(other, "hook") or "").replace(" ", "").split(",")
    return phases == ["PreSync"] and wave(other) > wave(found)


@rule("sync-wave-waits-for-consumer", Severity.WARNING)
def sync_wave_waits_for_consumer(world: World) -> Iterator[Hit]:
    """A volume claim stands in an earlier wave than the first pod that uses it.

    A storage class with `volumeBindingMode: WaitForFirstConsumer`, which node-local and most cloud classes have,
    binds a claim only when a pod uses it. Argo CD takes a pending claim for not healthy yet, so the wave with the pod
    never starts.
    """
    modes = {found.name: found.value.get("volumeBindingMode", "Immediate") for found in world.of_kind("StorageClass")}
    for group in _synced_together(world):
        first: dict[str, int] = {}
        for found in group:
            for kind, name in _needs(found):
                if kind == "PersistentVolumeClaim":
                    first[name] = min(wave(found), first.get(name, wave(found)))
        for found in group:
            if found.kind != "PersistentVolumeClaim" or first.get(found.name, wave(found)) <= wave(found):
                continue
            if _waits_for_a_pod(found, modes):
                yield Hit(
                    at=found,
                    path=_WAVE,
                    message=f"waiting for volume claim: no pod of its wave uses it: `{found.name}`",
                    fix=f"put it in wave {first[found.name]}, the wave of the pod that uses it",
                )


def _waits_for_a_pod(claim: Object, modes: Mapping[str, object]) -> bool:
    """Whether a volume claim binds only when a pod uses it, as far as its class or its access modes tell."""
    if look(claim.value, "spec", "volumeName"):
        return False
    mode = modes.get(text(claim.value, "spec", "storageClassName") or "")
    shared = any(item == "ReadWriteMany" for _, item in items(claim.value, "spec", "accessModes"))
    return mode == "WaitForFirstConsumer" or (mode is None and not shared)


@rule("sync-job-comes-back", Severity.WARNING)
def sync_job_comes_back(world: World) -> Iterator[Hit]:
    """A Job removes itself, and Argo CD makes it again and again.

    With `ttlSecondsAfterFinished` Kubernetes deletes the finished Job; an Application with `selfHeal` finds it missing
    and runs it once more, for ever. A hook with a deletion policy runs once per sync.
    """
    for app, delivery in deliveries(world):
        for found in delivery.objects if app.heals else ():
            removes_itself = look(found.value, "spec", "ttlSecondsAfterFinished") is not None
            if found.kind == "Job" and removes_itself and not is_hook(found):
                yield Hit(
                    at=found,
                    path=("spec", "ttlSecondsAfterFinished"),
                    message=f"removing finished job: application `{app.name}` runs it again: `{found.name}`",
                    fix="make it a hook with `argocd.argoproj.io/hook-delete-policy`, or leave the field out",
                )
