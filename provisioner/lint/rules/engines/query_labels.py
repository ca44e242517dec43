"""Labels in queries against the folder: models that nobody serves, namespaces in which nothing is scaled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import engines_in
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._promql import Wanted, wanted
from provisioner.lint.server_kinds import EngineKind
from provisioner.lint.values import has_hole
from provisioner.lint.world import Object, World

_MODEL = "model_name"
_NAMESPACE = "namespace"
_NAMED = (EngineKind.VLLM, EngineKind.SGLANG)
"""Engines whose metrics carry the name under which the model is served."""


def _served(engine: Engine) -> frozenset[str] | None:
    """The names under which an engine serves its model and adapters; None where they are not known."""
    flag = engine.find("served name") or engine.find("--served-model-name")
    first = flag.value if flag is not None else engine.model
    if not engine.is_complete or first is None or has_hole(first) or "$" in first:
        return None
    adapters = engine.find("--lora-modules")
    more = [word.text or "" for word in engine.others] + ([adapters.value or ""] if adapters else [])
    return frozenset([first, *(word.partition("=")[0] for word in more)])


def _all_served(found: Iterable[Engine], kind: EngineKind) -> frozenset[str] | None:
    """Every name that engines of a kind serve; None where one of them is not known, or there is none."""
    names = [_served(engine) for engine in found if engine.kind is kind and not engine.is_worker]
    known = [one for one in names if one is not None]
    return frozenset().union(*known) if known and len(known) == len(names) else None


@lru_cache(maxsize=2)
def _served_here(world: World, kind: EngineKind) -> frozenset[str] | None:
    return _all_served(engines(world), kind)


def _of_models(world: World) -> Iterator[Wanted]:
    return (one for one in wanted(world) if one.label == _MODEL and one.engine in _NAMED)


@rule("scaler-model-of-another", Severity.ERROR)
def scaler_model_of_another(world: World) -> Iterator[Hit]:
    """A scaler asks for the load of a model that its target does not serve.

    The label `model_name` is what `--served-model-name` says, else `--model`. Under any other name the query finds
    nothing, or the load of somebody else's model, and the scaler does the wrong thing without an error.
    """
    for one in _of_models(world):
        names = _all_served(engines_in(one.scaled, world), one.engine)
        if names is not None and one.scaled is not None and not any(map(one.fits, names)):
            message = f"querying metrics: {one.scaled.title} serves no model named {shown(one.value)}"
            yield Hit(at=one.at, path=one.path, message=message, fix=f"it serves: {', '.join(sorted(names))}")


@rule("query-model-unknown", Severity.WARNING)
def query_model_unknown(world: World) -> Iterator[Hit]:
    """An alert asks for a model that no engine of the folder serves.

    The label `model_name` is what `--served-model-name` says, else `--model`. Prometheus answers with nothing, which is
    no error: the alert never fires.
    """
    for one in _of_models(world):
        names = _served_here(world, one.engine) if one.scaled is None else None
        if names is not None and not any(map(one.fits, names)):
            message = f"querying metrics: no engine of the folder serves a model named {shown(one.value)}"
            fix = f"they serve: {', '.join(sorted(names)[:5])}"
            yield Hit(at=one.at, path=one.path, message=message, fix=fix)


@rule("query-namespace-of-another", Severity.ERROR)
def query_namespace_of_another(world: World) -> Iterator[Hit]:
    """A scaler asks for the metrics of another namespace than the one in which its target runs.

    The query finds nothing, or the load of the same engine elsewhere. Tenant clusters on shared nodes, whose pods have
    another namespace for the control plane cluster's Prometheus, are left alone.
    """
    for one in wanted(world) if not world.tenants else ():
        space = _space(one.scaled, world)
        if one.label == _NAMESPACE and one.scaled is not None and space is not None and not one.fits(space):
            message = f"querying metrics: {one.scaled.title} is not in namespace {shown(one.value)}"
            yield Hit(at=one.at, path=one.path, message=message, fix=f"write {_NAMESPACE}={space}")


def _space(scaled: Object | None, world: World) -> str | None:
    """The namespace of what is scaled, where it runs the engine itself."""
    runs_engine = scaled is not None and scaled.inside is None and bool(engines_in(scaled, world))
    return scaled.namespace if scaled is not None and runs_engine and not has_hole(scaled.namespace) else None
