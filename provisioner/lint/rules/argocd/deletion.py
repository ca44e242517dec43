"""What goes when an ApplicationSet, or an element of its generator, goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.applications import FINALIZER
from provisioner.lint.joins.model_names import sounds_like_inference
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.argocd._generators import generators, kinds, sets
from provisioner.lint.values import items, look, mapping, text
from provisioner.lint.world import Object, World


@rule("applicationset-deletion-wipes", Severity.INFO)
def applicationset_deletion_wipes(world: World) -> Iterator[Hit]:
    """Deleting an ApplicationSet, or an element of its generator, deletes what was delivered.

    By default the set owns its Applications and they cascade (argo-cd issues 29600, 16721 and 18201): a renamed set
    or a moved folder ends every model server. `syncPolicy.preserveResourcesOnDeletion: true` keeps what runs,
    `applicationsSync: create-update` keeps the Applications when an element goes.
    """
    for found, spec in sets(world):
        if not _is_kept(spec) and not _unsteady(spec) and not _delivers_models(found, spec):
            yield _wiping(found, spec, f"everything that it delivered goes with it: `{found.name}`")


@rule("applicationset-deletion-ends-models", Severity.WARNING)
def applicationset_deletion_ends_models(world: World) -> Iterator[Hit]:
    """Deleting an ApplicationSet, or an element of its list, ends model servers that answer customers.

    By default the set owns its Applications and they cascade (argo-cd issues 29600, 16721 and 18201). Loading weights
    again takes minutes to hours, and GPUs given back may be gone. Said for sets that are, or deliver what is, named as
    model servers are, other than previews of pull requests. `syncPolicy.preserveResourcesOnDeletion: true` keeps what
    runs, `applicationsSync: create-update` keeps the Applications when an element goes.
    """
    for found, spec in sets(world):
        if not _is_kept(spec) and not _unsteady(spec) and _delivers_models(found, spec):
            yield _wiping(found, spec, f"the model servers that it delivered go with it: `{found.name}`")


def _delivers_models(found: Object, spec: Mapping[str, Any]) -> bool:
    """Whether a set is named like model servers, or what it delivers is; previews come and go."""
    template = mapping(spec, "template")
    sources = [mapping(template, "spec", "source"), *(one for _, one in items(template, "spec", "sources"))]
    names = [found.name, text(template, "metadata", "name"), text(template, "spec", "destination", "namespace")]
    names += [text(source, part) for source in sources for part in ("path", "chart")]
    is_preview = any("pullRequest" in kinds(generator) for _, generator, _ in generators(spec))
    return not is_preview and sounds_like_inference(*names)


_UNSTEADY = {"clusters", "clusterDecisionResource", "scmProvider", "plugin"}
"""Generators whose elements come and go without a commit."""


def _unsteady(spec: Mapping[str, Any]) -> str | None:
    found = (kind for _, generator, _ in generators(spec) for kind in kinds(generator) if kind in _UNSTEADY)
    return next(found, None)


@rule("applicationset-forgets-cluster", Severity.WARNING)
def applicationset_forgets_cluster(world: World) -> Iterator[Hit]:
    """An ApplicationSet deletes the workloads of a cluster, or repository, that only its generator lost sight of.

    A changed label, a renewed cluster Secret or a failing API takes the element away; its Application goes, and by
    default everything that it delivered (argo-cd issues 29600 and 16721). `syncPolicy.applicationsSync: create-update`
    keeps the Applications, `preserveResourcesOnDeletion: true` what runs.
    """
    for found, spec in sets(world):
        unsteady = _unsteady(spec)
        if unsteady and not _is_kept(spec):
            yield _wiping(found, spec, f"an element that it loses takes its workloads along: `{unsteady}`")


def _is_kept(spec: Mapping[str, Any]) -> bool:
    policy = mapping(spec, "syncPolicy")
    is_kept = policy.get("preserveResourcesOnDeletion") is True
    return is_kept or policy.get("applicationsSync") in ("create-only", "create-update")


def _wiping(found: Object, spec: Mapping[str, Any], fact: str) -> Hit:
    return Hit(
        at=found,
        path=("spec", "syncPolicy") if mapping(spec, "syncPolicy") else ("spec",),
        message=f"deleting applications: {fact}",
        fix="set `syncPolicy.preserveResourcesOnDeletion: true`, or `applicationsSync: create-update`",
    )


@rule("applicationset-preserve-undone", Severity.WARNING)
def applicationset_preserve_undone(world: World) -> Iterator[Hit]:
    """An ApplicationSet preserves what it delivered, but its template cascades all the same.

    `preserveResourcesOnDeletion` only leaves the finalizer out of the generated Applications; one that the template
    itself carries stays, and deletes everything.
    """
    for found, spec in sets(world):
        finalizers = [item for _, item in items(spec, "template", "metadata", "finalizers") if isinstance(item, str)]
        is_preserved = look(spec, "syncPolicy", "preserveResourcesOnDeletion") is True
        if is_preserved and any(item.startswith(FINALIZER) for item in finalizers):
            yield Hit(
                at=found,
                path=("spec", "template", "metadata", "finalizers"),
                message=f"preserving resources: the template's finalizer deletes them: `{FINALIZER}`",
                fix="remove the finalizer from the template",
            )
