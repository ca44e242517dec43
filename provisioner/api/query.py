"""Refuses query parameters that a route does not know: a filter that is misspelt must not answer everything."""

from __future__ import annotations

from fastapi import Request

from provisioner.api.methods import described_at
from provisioner.catalog.fields import shown
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint


async def refuse_unknown_parameters(request: Request) -> None:
    """Let a request pass whose parameters stand in the OpenAPI document. Raises RejectedError with every other."""
    if not request.query_params:
        return
    known = _known(request)
    findings = tuple(
        Finding(
            reason="UnknownParameter",
            message=f"reading parameters: unknown {shown(name)}",
            field=name[:80],
            hint=unknown_name_hint(name, known),
        )
        for name in request.query_params
        if name not in known
    )
    if findings:
        raise RejectedError("reading parameters: not as they should be", reason="InvalidRequest", findings=findings)


def _known(request: Request) -> list[str]:
    described = described_at(request.url.path, request.app.openapi()).get(request.method.lower(), {})
    return [parameter["name"] for parameter in described.get("parameters", ()) if parameter["in"] == "query"]
