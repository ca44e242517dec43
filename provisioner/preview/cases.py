"""The reference cases of a tier: requests that stand for all that it may be asked for, derived from the catalog. Pure.

Both sides of a change are asked the same where they can be, so that what differs comes from the change and not from
another choice of model or region.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from provisioner.admission import forecast_endpoint
from provisioner.catalog.catalog import Catalog
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


def reference_cases(tier: str, offers: Sequence[Offer]) -> dict[str, tuple[Request | None, ...]]:
    """The requests by name of case, one for each offer, None where it does not have the tier or the runtime: the tier's
    own example, and a small model for every other runtime that it allows. A case that no offer admits is left out."""
    entries = [offer.catalog.tiers.get(tier) for offer in offers]
    known = [entry for entry in entries if entry is not None]
    examples = tuple(dict.fromkeys(str(entry.example.get("model")) for entry in known))
    wanted = {EXAMPLE: examples}
    shown = {_runtime_of(model, offers) for model in examples}
    for runtime in dict.fromkeys(name for entry in known for name in entry.runtimes):
        if runtime not in shown:
            wanted[runtime] = _models_of(runtime, offers)
    found = {case: _asked(case, models, offers, entries) for case, models in wanted.items()}
    return {case: requests for case, requests in found.items() if any(requests)}


def _asked(
    case: str, models: Sequence[str], offers: Sequence[Offer], entries: Sequence[Tier | None]
) -> tuple[Request | None, ...]:
    """The first requests that every offer admits, else those that most of them do; nothing where none does."""
    best: tuple[int, tuple[Request | None, ...]] = (0, ())
    wanted = sum(entry is not None and (case == EXAMPLE or case in entry.runtimes) for entry in entries)
    for model, region in islice(_choices(models, offers, entries), _MAX_TRIED):
        requests = tuple(
            _request(entry, model, region) if entry and (case == EXAMPLE or case in entry.runtimes) else None
            for entry in entries
        )
        admitted = sum(_is_admitted(request, offer) for request, offer in zip(requests, offers, strict=True))
        if admitted > best[0]:
            best = (admitted, requests)
        if admitted == wanted:
            break
    return best[1]


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


def _is_admitted(request: Request | None, offer: Offer) -> bool:
    if request is None:
        return False
    forecast = forecast_endpoint(request, catalog=offer.catalog, site=offer.site)
    return forecast.renders and all(finding.severity is not Severity.ERROR for finding in forecast.findings)


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
