"""The reference cases of a tier: requests that stand for all that it may be asked for, derived from the catalog. Pure.

Both sides of a change are asked the same where they can be, so that what differs comes from the change and not from
another choice of model or region. A model that the change touches or takes away is a case of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from provisioner.admission import forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.model import Model
from provisioner.catalog.site import Site
from provisioner.catalog.tier import Tier
from provisioner.domain.finding import Severity

EXAMPLE = "example"
"""The case that is a tier's own example; the others are named by their runtime."""
_MAX_TRIED = 50
"""Models and regions that are tried for one case."""

Request = Mapping[str, Any]


class Offer(NamedTuple):
    """What one side offers."""

    catalog: Catalog
    site: Site


class Case(NamedTuple):
    """What is asked, one request for each offer, None where it does not have the tier, the runtime or the model; empty
    where nobody can make a plan of it, and `why` says why."""

    requests: tuple[Request | None, ...] = ()
    why: str = "no model of the catalog is served by it"


def reference_cases(tier: str, offers: Sequence[Offer]) -> dict[str, Case]:
    """The cases of a tier by name: its own example, a small model for every other runtime that it allows, and every
    model of the first offer that another one describes otherwise or does not have."""
    entries = [offer.catalog.tiers.get(tier) for offer in offers]
    known = [entry for entry in entries if entry is not None]
    examples = tuple(dict.fromkeys(str(entry.example.get("model")) for entry in known))
    found = {EXAMPLE: _case(examples, offers, entries)}
    shown = {_runtime_of(model, offers) for model in examples}
    runtimes = dict.fromkeys(name for entry in known for name in entry.runtimes)
    for runtime in runtimes:
        if runtime not in shown:
            found[runtime] = _case(_models_of(runtime, offers), offers, entries, runtime=runtime)
    asked = {str(request["model"]) for case in found.values() for request in case.requests if request}
    for model in _touched(offers):
        runtime = _runtime_of(model, offers) or ""
        if model not in asked and runtime in runtimes:
            case = _case((model,), offers, entries, runtime=runtime)
            found |= {model: case} if case.requests else {}  # one that the tier never served is none of its cases
    return found


def _case(models: Sequence[str], offers: Sequence[Offer], entries: Sequence[Tier | None], *, runtime: str = "") -> Case:
    """The first requests that every offer admits, else those that most of them do, else those that most of them can
    make a plan of; none where nobody can. `runtime` is what a tier has to allow to be asked."""
    wanted = [entry is not None and (not runtime or runtime in entry.runtimes) for entry in entries]
    least = _PLANNED if all(wanted) else _ADMITTED  # what only one side has and the site refuses is no news
    best, chosen = least - 1, Case()
    for model, region in islice(_choices(models, offers, entries), _MAX_TRIED):
        requests = tuple(
            _request(entry, model, region) if entry and is_wanted else None
            for entry, is_wanted in zip(entries, wanted, strict=True)
        )
        judged = [_judged(request, offer) for request, offer in zip(requests, offers, strict=True) if request]
        score = sum(one.score for one in judged)
        if score > best:
            best, chosen = score, Case(requests)
        elif not chosen.requests:
            chosen = Case(why=next((one.why for one in judged if one.why), chosen.why))
        if score == _ADMITTED * sum(wanted):
            break
    return chosen


def _choices(
    models: Sequence[str], offers: Sequence[Offer], entries: Sequence[Tier | None]
) -> Iterator[tuple[str, str]]:
    named = (str(entry.example.get("region")) for entry in entries if entry is not None)
    regions = dict.fromkeys([*named, *(name for offer in offers for name in sorted(offer.site.regions))])
    there = [name for name in regions if any(name in offer.site.regions for offer in offers)]
    return ((model, region) for model in models for region in there)


def _request(entry: Tier, model: str, region: str) -> Request:
    """The tier's example for a model; what it says of serving holds for its own model only."""
    asked = {**entry.example, "region": region}
    if asked.get("model") != model:
        asked = {**{name: value for name, value in asked.items() if name != "serving"}, "model": model}
    return asked


_ADMITTED, _PLANNED = 3, 1
"""What counts for a choice: that an offer admits it, and less, that it can at least make a plan of it."""


_NOT_OFFERED = frozenset({"ModelNotOffered", "RuntimeNotAllowed"})
"""Errors by which a site says that it does not want it, other than that something of it is not ready yet."""


class _Judged(NamedTuple):
    score: int
    why: str


def _judged(request: Request, offer: Offer) -> _Judged:
    forecast = forecast_endpoint(request, catalog=offer.catalog, site=offer.site)
    errors = [finding for finding in forecast.findings if finding.severity is Severity.ERROR]
    is_offered = forecast.renders and not any(finding.reason in _NOT_OFFERED for finding in errors)
    score = 0 if not is_offered else _PLANNED if errors else _ADMITTED
    return _Judged(score, errors[0].message if errors else "")


def _touched(offers: Sequence[Offer]) -> list[str]:
    """Models of the first offer that are not the same in all others."""
    first, *others = (offer.catalog.models for offer in offers)
    return [name for name in sorted(first) if any(_differs(first[name], other.get(name)) for other in others)]


def _differs(one: Model, other: Model | None) -> bool:
    return one is not other and one != other


def _runtime_of(model: str, offers: Sequence[Offer]) -> str | None:
    known = (offer.catalog.models.get(model) for offer in offers)
    return next((found.master.runtime for found in known if found is not None), None)


def _models_of(runtime: str, offers: Sequence[Offer]) -> tuple[str, ...]:
    """The models that a runtime serves, the smallest first."""
    sizes = {
        model.id: model.architecture.weights_bytes
        for offer in offers
        for model in offer.catalog.models.values()
        if model.master.runtime == runtime
    }
    return tuple(sorted(sizes, key=lambda name: (sizes[name], name)))
