"""Whether a process lives and can work: for probes, on every process of the server."""

from __future__ import annotations

from fastapi import APIRouter, Request

from provisioner.store.interface import Store

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """The database answers."""
    store: Store = request.app.state.store
    await store.snapshots.version()
    return {"status": "ok"}
