"""Requests that `tenantry plan` is asked about in tests, and what it decides of them for the example site."""

from __future__ import annotations

from typing import Any

from provisioner.admission import Forecast, forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site
from provisioner.catalog.site import Site
from provisioner.domain.finding import Severity

CATALOG = load_catalog()
SITE = load_site(example_site())
GOOD: dict[str, Any] = {
    "name": "chat",
    "tenant": "acme",
    "model": "Qwen2-VL-2B-Instruct",
    "region": "eu-central-1",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}
BIG = {**GOOD, "model": "MiniMax-M2.5"}


def forecast(raw: Any, *, catalog: Catalog = CATALOG, site: Site = SITE) -> Forecast:
    return forecast_endpoint(raw, catalog=catalog, site=site)


def rules(raw: Any, *, site: Site = SITE, severity: Severity = Severity.ERROR) -> set[tuple[str, str]]:
    found = forecast(raw, site=site).findings
    return {(finding.rule, finding.field) for finding in found if finding.severity is severity}


def with_serving(raw: dict[str, Any] = GOOD, **serving: Any) -> dict[str, Any]:
    return {**raw, "serving": serving}
