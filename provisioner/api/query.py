"""Refuses query parameters that a route does not know, or that stand twice: a filter that is misspelt must not answer
everything, and nobody knows which of two is meant."""

from __future__ import annotations

from collections import Counter

from fastapi import Request

from provisioner.api.methods import described_at
from provisioner.catalog.fields import shown
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint


async def refuse_unknown_parameters(request: Request) -> None:
    """Let a request pass whose parameters stand in the OpenAPI document, each once. Raises RejectedError with every
    other."""
    if not request.query_params:
        return
    known, sent = _known(request), Counter(name for name, _ in request.query_params.multi_items())
    unknown = (
        Finding(
            reason="UnknownParameter",
            message=f"reading parameters: unknown {shown(name)}",
            field=name[:80],
            hint=unknown_name_hint(name, known),
        )
        for name in sent
        if name not in known
    )
    repeated = (
        Finding(
            reason="RepeatedParameter",
            message=f"reading parameters: it stands {count} times: {shown(name)}",
            field=name[:80],
            hint="send it once",
        )
        for name, count in sent.items()
        if count > 1 and name in known
    )
    if findings := (*unknown, *repeated):
        raise RejectedError("reading parameters: not as they should be", reason="InvalidRequest", findings=findings)


def _known(request: Request) -> list[str]:
    described = described_at(request.url.path, request.app.openapi()).get(request.method.lower(), {})
    return [parameter["name"] for parameter in described.get("parameters", ()) if parameter["in"] == "query"]
