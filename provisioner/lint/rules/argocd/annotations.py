"""Argo CD's annotations on any object: their names and values.

The waves themselves are `waves`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.applications import annotated, annotation
from provisioner.lint.joins.slips import distance
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, look
from provisioner.lint.world import Object, World

_ANNOTATIONS = (
    "sync-wave",
    "sync-options",
    "hook",
    "hook-delete-policy",
    "compare-options",
    "manifest-generate-paths",
    "skip-reconcile",
    "ignore-resource-updates",
    "ignore-healthcheck",
    "tracking-id",
    "refresh",
    "hydrate",
    "application-set-refresh",
)
_SLIP = 2
"""Letters that may be wrong in a name that was meant to be a known one."""
_HOOKS = ("PreSync", "Sync", "PostSync", "SyncFail", "Skip", "PreDelete", "PostDelete")
_DELETE_POLICIES = ("HookSucceeded", "HookFailed", "BeforeHookCreation")
_COMPARE_OPTIONS = (
    "IgnoreExtraneous",
    "ServerSideDiff=true",
    "ServerSideDiff=false",
    "IncludeMutationWebhook=true",
    "IncludeMutationWebhook=false",
)


@rule("argocd-annotation-misspelt", Severity.ERROR)
def argocd_annotation_misspelt(world: World) -> Iterator[Hit]:
    """An annotation looks like one of Argo CD's but is spelt differently, so it does nothing.

    Argo CD ignores annotations that it does not know. Known ones stand in the user guide, Annotations and Labels.
    """
    for found in annotated(world):
        for key in found.annotations:
            prefix, slash, name = key.partition("/")
            wrong = _misspelt(prefix, name) if slash and "argo" in prefix else None
            if wrong:
                path: FieldPath = ("metadata", "annotations", key)
                fix = f"write `argocd.argoproj.io/{wrong}`"
                yield Hit(at=found, path=path, message=f"reading annotation: Argo CD does not know: `{key}`", fix=fix)


def _misspelt(prefix: str, name: str) -> str | None:
    """The annotation that was meant, None where another one may be meant."""
    if prefix == "argocd.argoproj.io":
        if name in _ANNOTATIONS:
            return None
        same = {known.replace("-", ""): known for known in _ANNOTATIONS}
        plain = re.sub(r"[-_.]", "", name.lower())
        near = (known for known in _ANNOTATIONS if distance(name, known) <= _SLIP)
        return same.get(plain) or same.get(plain.removesuffix("s")) or same.get(f"{plain}s") or next(near, None)
    is_near = prefix in {"argoproj.io", "argocd.argoproj.com", "argo.argoproj.io", "argocd.io", "argocd.argoproj"}
    return name if is_near and name in _ANNOTATIONS else None


def _path(name: str) -> FieldPath:
    return "metadata", "annotations", f"argocd.argoproj.io/{name}"


@rule("sync-wave-malformed", Severity.ERROR)
def sync_wave_malformed(world: World) -> Iterator[Hit]:
    """A sync wave is no whole number in quotes.

    Annotations are texts, so an unquoted number is refused by the API server; a text that is no whole number is wave 0
    for Argo CD without a word, and the order is not the one that was meant (user guide, Sync Phases and Waves).
    """
    for found in annotated(world):
        value = look(found.value, *_path("sync-wave"))
        if has_hole(value):
            continue
        if value is not None and not (isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,9}", value)):
            yield Hit(
                at=found,
                path=_path("sync-wave"),
                message=f"reading sync wave: it is no whole number in quotes: `{value}`",
                fix='write a whole number in quotes, such as `"1"`',
            )


@rule("hook-misspelt", Severity.ERROR)
def hook_misspelt(world: World) -> Iterator[Hit]:
    """A hook of Argo CD is spelt differently, so that the object is no hook at all or the wrong one.

    Known are PreSync, Sync, PostSync, SyncFail, Skip, PreDelete and PostDelete, case by case; anything else is synced
    like any object, for example a Job that should have run before everything else.
    """
    yield from _unknown_words(world, "hook", _HOOKS)


@rule("hook-delete-policy-misspelt", Severity.ERROR)
def hook_delete_policy_misspelt(world: World) -> Iterator[Hit]:
    """The deletion policy of a hook is spelt differently and is ignored.

    Known are HookSucceeded, HookFailed and BeforeHookCreation, case by case.
    """
    yield from _unknown_words(world, "hook-delete-policy", _DELETE_POLICIES)


@rule("hook-delete-policy-without-hook", Severity.WARNING)
def hook_delete_policy_without_hook(world: World) -> Iterator[Hit]:
    """A deletion policy for hooks stands on an object that is no hook.

    There it does nothing: the object is synced like any other and stays. As a rule the hook's own annotation was lost.
    """
    for found in annotated(world):
        if annotation(found, "hook-delete-policy") and not _is_hook(found):
            yield Hit(
                at=found,
                path=_path("hook-delete-policy"),
                message=f"reading deletion policy: the object is no hook: `{found.title}`",
                fix="add `argocd.argoproj.io/hook`, or remove the policy",
            )


def _is_hook(found: Object) -> bool:
    return bool(annotation(found, "hook")) or "helm.sh/hook" in found.annotations


@rule("sync-compare-option-misspelt", Severity.ERROR)
def sync_compare_option_misspelt(world: World) -> Iterator[Hit]:
    """A compare option is spelt differently and is ignored.

    Known are IgnoreExtraneous, ServerSideDiff=true and IncludeMutationWebhook=true (user guide, Compare Options).
    """
    yield from _unknown_words(world, "compare-options", _COMPARE_OPTIONS)


def _unknown_words(world: World, name: str, known: tuple[str, ...]) -> Iterator[Hit]:
    for found in annotated(world):
        for word in (annotation(found, name) or "").split(","):
            trimmed = word.strip()
            if trimmed and trimmed not in known and not has_hole(trimmed):
                near = nearest_name(trimmed, known)
                yield Hit(
                    at=found,
                    path=_path(name),
                    message=f"reading annotation `argocd.argoproj.io/{name}`: Argo CD does not know: `{trimmed}`",
                    fix=f"write `{near}`" if near else f"write one of: {', '.join(known)}",
                )
