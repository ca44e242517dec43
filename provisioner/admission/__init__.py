"""Accept or refuse a create or an update: request x catalog x site x quota gives a plan or findings. Pure."""

from __future__ import annotations

from provisioner.admission.admit import (
    Forecast,
    admit_endpoint,
    assume,
    forecast_endpoint,
    parse_request,
    plan_endpoint,
    preview_id,
)
from provisioner.admission.capacity import regions_of

__all__ = [
    "Forecast",
    "admit_endpoint",
    "assume",
    "forecast_endpoint",
    "parse_request",
    "plan_endpoint",
    "preview_id",
    "regions_of",
]
