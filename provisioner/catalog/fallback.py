"""External fallback as a site declares it: where requests may go while an endpoint has no replica, and how many.

A sovereign site has none. Nothing goes anywhere until an administrator chooses a policy for an endpoint.
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from provisioner.catalog.entry import Entry
from provisioner.domain.fallback import FallbackPolicy, Period
from provisioner.domain.snapshot import Backend


class FallbackBudget(Entry):
    """What may be sent in a period, over all gateways and endpoints."""

    period: Annotated[Literal["hour", "day"], Field(description="each begins at the full hour, or at midnight, of UTC")]
    requests: Annotated[int, Field(ge=1, description="requests of one period")]
    request_cost: Annotated[
        int, Field(ge=0, description="what a request is counted at before it is sent, in a unit of your choice")
    ] = 0
    cost: Annotated[int | None, Field(ge=0, description="cap on a period's cost; null for none")] = None


class FallbackOffer(Entry):
    """A target outside, which answers the OpenAI API."""

    name: Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
    url: Annotated[
        str,
        Field(pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/v1)?/?$", description="its base; paths begin with /v1"),
    ]
    credential: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
            description="name of the secret that goes along, a file in the gateways' folder of secrets",
        ),
    ]
    models: Annotated[
        dict[str, str], Field(min_length=1, description="a model's id in our catalog -> its exact id at the target")
    ]
    budget: FallbackBudget

    def policy(self) -> FallbackPolicy:
        """The same for those who choose it, reserve of it and send."""
        parts = urlsplit(self.url)
        is_https, host = parts.scheme == "https", parts.hostname or ""
        return FallbackPolicy(
            name=self.name,
            target=Backend(
                host=host,
                address=f"{host}:{parts.port or (443 if is_https else 80)}",
                tls=is_https,
                is_public=True,
                credential=self.credential,
            ),
            models=self.models,
            period=Period(self.budget.period),
            requests=self.budget.requests,
            request_cost=self.budget.request_cost,
            cost=self.budget.cost,
        )
