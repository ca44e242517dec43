"""The page that Prometheus reads, on every process of the server, without a key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from provisioner.api.metrics import Metrics
from provisioner.domain.exposition import CONTENT_TYPE

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def get_metrics(request: Request) -> Response:
    """What this process counts."""
    metrics: Metrics = request.app.state.metrics
    return Response(await metrics.text(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
