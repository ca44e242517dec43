"""How Argo CD syncs an Application: its sync options, at which place which are known, retries and what it may empty.

Waves are `waves`, ignored differences `differences`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import App, annotated, annotation, applications, sync_options
from provisioner.lint.joins.schedule import is_duration
from provisioner.lint.rule import Hit, Located, rule
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import POD_TEMPLATES, World

_BOOLEAN = ("true", "false")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "ApplyOutOfSyncOnly": _BOOLEAN,
    "ClientSideApplyMigration": _BOOLEAN,
    "CreateNamespace": _BOOLEAN,
    "Delete": ("false", "confirm", "true"),
    "DisableClientSideApplyMigration": _BOOLEAN,
    "FailOnSharedResource": _BOOLEAN,
    "Force": _BOOLEAN,
    "Prune": ("false", "confirm", "true"),
    "PruneLast": _BOOLEAN,
    "PrunePropagationPolicy": ("foreground", "background", "orphan"),
    "Replace": _BOOLEAN,
    "RespectIgnoreDifferences": _BOOLEAN,
    "ServerSideApply": _BOOLEAN,
    "SkipDryRunOnMissingResource": _BOOLEAN,
    "Validate": _BOOLEAN,
}
"""The sync options of the user guide and their values."""
_APPLICATION_ONLY = {
    "ApplyOutOfSyncOnly",
    "CreateNamespace",
    "FailOnSharedResource",
    "PrunePropagationPolicy",
    "RespectIgnoreDifferences",
}
_ANNOTATION: FieldPath = ("metadata", "annotations", "argocd.argoproj.io/sync-options")


@dataclass(frozen=True, slots=True)
class _Option:
    """One sync option and where it is written."""

    at: Located
    path: FieldPath
    word: str

    @property
    def key(self) -> str:
        return self.word.partition("=")[0].strip()

    @property
    def value(self) -> str:
        return self.word.partition("=")[2].strip()


@lru_cache(maxsize=2)
def _application_options(world: World) -> tuple[_Option, ...]:
    return tuple(_written_options(world))


def _written_options(world: World) -> Iterator[_Option]:
    for app in applications(world):
        for path, item in items(app.spec, "syncPolicy", "syncOptions"):
            if isinstance(item, str) and not has_hole(item):
                yield _Option(app.at, app.at_path(*path), item)


def _object_options(world: World) -> Iterator[_Option]:
    for found in annotated(world):
        for word in (annotation(found, "sync-options") or "").split(","):
            if word.strip() and not has_hole(word):
                yield _Option(found, _ANNOTATION, word.strip())


@rule("sync-option-misspelt", Severity.ERROR)
def sync_option_misspelt(world: World) -> Iterator[Hit]:
    """A sync option of Argo CD is spelt differently and is ignored.

    Options are texts of the form `Name=value`, case by case; Argo CD passes over whatever it does not know, so that for
    example a namespace is never created. The known ones stand in the user guide, Sync Options.
    """
    for option in (*_application_options(world), *_object_options(world)):
        known = _OPTIONS.get(option.key)
        if known and option.value in known and "=" in option.word and option.word == f"{option.key}={option.value}":
            continue
        near = option.key if known else nearest_name(option.key, _OPTIONS)
        value = option.value.lower() if known is None or option.value.lower() in known else known[0]
        yield Hit(
            at=option.at,
            path=option.path,
            message=f"reading sync option: Argo CD does not know: `{option.word}`",
            fix=f"write `{near}={value or 'true'}`" if near else f"write one of: {', '.join(_OPTIONS)}",
        )


@rule("sync-option-misplaced", Severity.ERROR)
def sync_option_misplaced(world: World) -> Iterator[Hit]:
    """A sync option stands where Argo CD does not look for it.

    CreateNamespace, RespectIgnoreDifferences, ApplyOutOfSyncOnly, FailOnSharedResource, PrunePropagationPolicy belong
    to the Application's `spec.syncPolicy.syncOptions`; in an object's annotation they do nothing. Force belongs to
    the object's annotation. `syncOptions` anywhere else in the spec is dropped (user guide, Sync Options).
    """
    for option in _object_options(world):
        if option.key in _APPLICATION_ONLY:
            yield _misplaced(option, "write it in `spec.syncPolicy.syncOptions` of the Application")
    for option in _application_options(world):
        if option.key == "Force":
            yield _misplaced(option, "write it in the annotation `argocd.argoproj.io/sync-options` of the object")
    for app in applications(world):
        for path in (("syncOptions",), ("syncPolicy", "automated", "syncOptions"), ("source", "syncOptions")):
            if look(app.spec, *path) is not None:
                yield _misplaced(_Option(app.at, app.at_path(*path), "syncOptions"), "move it to `spec.syncPolicy`")
        for base in ((), ("syncPolicy",), ("syncPolicy", "automated")):
            for key in mapping(app.spec, *base):
                if key in _OPTIONS:
                    fix = f"add `- {key}=true` to `spec.syncPolicy.syncOptions`"
                    yield _misplaced(_Option(app.at, app.at_path(*base, key), key), fix)


def _misplaced(option: _Option, fix: str) -> Hit:
    message = f"reading sync option: at this place it does nothing: `{option.word}`"
    return Hit(at=option.at, path=option.path, message=message, fix=fix)


@rule("sync-option-twice", Severity.WARNING)
def sync_option_twice(world: World) -> Iterator[Hit]:
    """A sync option is set twice with different values.

    Which one counts is not said anywhere; whoever reads the Application believes one of them.
    """
    for app in applications(world):
        seen: dict[str, str] = {}
        for path, item in items(app.spec, "syncPolicy", "syncOptions"):
            key, _, value = item.partition("=") if isinstance(item, str) else ("", "", "")
            if key and seen.setdefault(key, value) != value:
                yield Hit(
                    at=app.at,
                    path=app.at_path(*path),
                    message=f"reading sync options of `{app.name}`: set before with another value: `{item}`",
                    fix="keep one of both",
                )


@rule("sync-options-as-mapping", Severity.ERROR)
def sync_options_as_mapping(world: World) -> Iterator[Hit]:
    """The sync options of an Application are no list of texts.

    `syncOptions` is a list of `Name=value`; a mapping, or `- Name: true` in the list, is refused by the API server.
    """
    for app in applications(world):
        given = look(app.spec, "syncPolicy", "syncOptions")
        base = app.at_path("syncPolicy", "syncOptions")
        if given is not None and not isinstance(given, list):
            yield _no_text(app, base, given)
        for path, item in items(app.spec, "syncPolicy", "syncOptions"):
            if not isinstance(item, str):
                yield _no_text(app, app.at_path(*path), item)


def _no_text(app: App, path: FieldPath, value: Any) -> Hit:
    pairs = value.items() if isinstance(value, Mapping) else ()
    written = ", ".join(f"{key}={str(item).lower()}" for key, item in pairs) or "CreateNamespace=true"
    message = f"reading sync options of application: they are no list of texts: `{app.name}`"
    return Hit(at=app.at, path=path, message=message, fix=f"write a list of texts: [{written}]")


@rule("sync-option-needs-new-argocd", Severity.WARNING)
def sync_option_needs_new_argocd(world: World) -> Iterator[Hit]:
    """An Application skips the dry run of missing kinds for all of its objects, which older versions of Argo CD ignore.

    For long only the annotation on the object itself worked (argo-cd issue 15095). With an older version the first sync
    fails with "no matches for kind" although the option stands there.
    """
    for option in _application_options(world):
        if option.key == "SkipDryRunOnMissingResource" and option.value == "true":
            yield Hit(
                at=option.at,
                path=option.path,
                message=f"skipping dry runs: older versions of Argo CD ignore it on an Application: `{option.word}`",
                fix="annotate the custom objects: `argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true`",
            )


@rule("sync-creates-no-namespace", Severity.ERROR)
def sync_creates_no_namespace(world: World) -> Iterator[Hit]:
    """An Application creates its namespace but does not say which.

    `CreateNamespace=true` makes the namespace of `destination.namespace`. Without that field it does nothing, and
    objects that leave their namespace out cannot be applied.
    """
    for app in applications(world):
        if app.options.get("CreateNamespace") == "true" and not look(app.spec, "destination", "namespace"):
            yield Hit(
                at=app.at,
                path=app.at_path("destination"),
                message=f"creating namespace of application: `destination.namespace` is missing: `{app.name}`",
                fix="set `destination.namespace`",
            )


@rule("sync-namespace-metadata-unused", Severity.WARNING)
def sync_namespace_metadata_unused(world: World) -> Iterator[Hit]:
    """Labels for the namespace of an Application are never set, since it does not create the namespace.

    `managedNamespaceMetadata` works only together with `CreateNamespace=true` (user guide, Sync Options): Pod Security
    labels written there protect nothing.
    """
    for app in applications(world):
        if mapping(app.spec, "syncPolicy", "managedNamespaceMetadata") and app.options.get("CreateNamespace") != "true":
            yield Hit(
                at=app.at,
                path=app.at_path("syncPolicy", "managedNamespaceMetadata"),
                message=f"labelling namespace: the application does not create it: `{app.name}`",
                fix="add `CreateNamespace=true` to `syncOptions`, or deliver a Namespace with these labels",
            )


@rule("sync-replace-against-apply", Severity.WARNING)
def sync_replace_against_apply(world: World) -> Iterator[Hit]:
    """Replace and ServerSideApply are both set, and only Replace counts.

    `Replace=true` takes precedence (user guide, Sync Options): objects are replaced or made anew, and what other
    controllers own in them, such as replicas, is thrown away.
    """
    for app in applications(world):
        if app.options.get("Replace") == "true" and app.options.get("ServerSideApply") == "true":
            yield _both(app.at, app.at_path("syncPolicy", "syncOptions"))
    for found in annotated(world):
        words = {word.strip() for word in (annotation(found, "sync-options") or "").split(",")}
        if {"Replace=true", "ServerSideApply=true"} <= words:
            yield _both(found, _ANNOTATION)


def _both(at: Located, path: FieldPath) -> Hit:
    message = "applying objects: `Replace=true` overrides: `ServerSideApply=true`"
    return Hit(at=at, path=path, message=message, fix="keep `ServerSideApply=true`")


@rule("sync-replaces-everything", Severity.WARNING)
def sync_replaces_everything(world: World) -> Iterator[Hit]:
    """An Application replaces all of its objects instead of applying changes.

    With `Replace=true` a field that cannot be changed makes the object go and come again, with an outage; what others
    own in it is lost (user guide, Sync Options). It belongs on the one object that needs it, and together with
    `Force=true`, which deletes first, on no workload: every change takes all its pods down.
    """
    for found in annotated(world):
        given = sync_options(found)
        if found.kind in POD_TEMPLATES and found.kind != "Job" and given.get("Force") == given.get("Replace") == "true":
            message = f"applying {found.title}: it is deleted and made again at every change: `Force=true,Replace=true`"
            path = ("metadata", "annotations", "argocd.argoproj.io/sync-options")
            yield Hit(at=found, path=path, message=message, fix="leave `Force=true` out")
    for option in _application_options(world):
        if option.word.replace(" ", "") == "Replace=true":
            yield Hit(
                at=option.at,
                path=option.path,
                message=f"applying objects: every one of the application is replaced: `{option.word}`",
                fix="use `ServerSideApply=true`, and `Replace=true` in the annotation of the object that needs it",
            )


@rule("sync-may-empty", Severity.WARNING)
def sync_may_empty(world: World) -> Iterator[Hit]:
    """An Application prunes everything when its source turns out empty.

    `automated.allowEmpty` takes away the protection that Argo CD has by default: a renamed folder or a generator that
    renders nothing then deletes all workloads (user guide, Automated Sync Policy).
    """
    for app in applications(world):
        if app.automated and app.automated.get("allowEmpty") is True and app.automated.get("prune") is True:
            yield Hit(
                at=app.at,
                path=app.at_path("syncPolicy", "automated", "allowEmpty"),
                message=f"pruning application: an empty source deletes everything: `{app.name}`",
                fix="leave `allowEmpty` out",
            )


@rule("sync-retry-malformed", Severity.ERROR)
def sync_retry_malformed(world: World) -> Iterator[Hit]:
    """The delay between two attempts to sync is no duration.

    `backoff.duration` and `maxDuration` are durations of Go such as `5s` or `3m`; there are no days and no spaces. Argo
    CD fails the operation when it cannot read them.
    """
    for app in applications(world):
        for key in ("duration", "maxDuration"):
            written = text(app.spec, "syncPolicy", "retry", "backoff", key)
            if written is not None and not has_hole(written) and not (written.isdecimal() or is_duration(written)):
                yield Hit(
                    at=app.at,
                    path=app.at_path("syncPolicy", "retry", "backoff", key),
                    message=f"reading delay between attempts: it is no duration: `{written}`",
                    fix="write a duration such as `5s` or `3m`",
                )
