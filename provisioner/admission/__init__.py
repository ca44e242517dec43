"""Accept or refuse a create or an update: request x catalog x site x quota gives a plan or findings. Pure."""

from __future__ import annotations

from provisioner.admission.admit import admit_endpoint, parse_request, plan_endpoint, preview_id

__all__ = ["admit_endpoint", "parse_request", "plan_endpoint", "preview_id"]
