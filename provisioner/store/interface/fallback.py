"""What the rest of the product needs of the rows of external fallback and of gateways; `interface` tells the rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from provisioner.domain.fallback import FallbackChoice, FallbackEvidence, FallbackPolicy, Reservation
from provisioner.domain.origin import Origin


class FallbackStore(Protocol):
    """Which endpoints chose which policy, and what became of requests that went outside or were not let."""

    async def find(self, endpoint: str) -> FallbackChoice | None:
        """The endpoint's choice."""
        ...

    async def list(self) -> Sequence[FallbackChoice]:
        """Every choice, by endpoint."""
        ...

    async def changes(self) -> int:
        """A number that grows with every change of a row."""
        ...

    async def choose(self, choice: FallbackChoice, origin: Origin) -> FallbackChoice:
        """Store an endpoint's choice on request, with an audit event. The same idempotency key and request digest
        answers what there is. NotFoundError when the endpoint is gone."""
        ...

    async def remove(self, endpoint: str, tenant: str, origin: Origin, now: datetime) -> None:
        """Remove it on request, with an audit event; one that is gone is fine."""
        ...

    async def evidence(
        self, endpoint: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[FallbackEvidence]:
        """What became of its requests, newest first; with `before` those with a lower id. `UsageStore.add` writes
        it."""
        ...


class BudgetStore(Protocol):
    """What is reserved of policies' budgets."""

    async def reserve(
        self, reservation: str, policy: FallbackPolicy, wanted: int, now: datetime, *, gateways: int
    ) -> Reservation:
        """Reserve at most `wanted` requests of the present period, perhaps none; never more than the policy's budget in
        all. The same `reservation` gives what it gave before."""
        ...

    async def give_back(self, reservation: str, unused: int) -> None:
        """Free the requests of a reservation that were not sent; a second time does nothing."""
        ...

    async def reserved(self, policy: str, period: datetime) -> int:
        """Requests that are reserved of the period that began at this moment, sent or not."""
        ...


class GatewayStore(Protocol):
    """The gateways that were heard of lately, each under an id of its own choice."""

    async def tell(self, gateway: str, now: datetime) -> None:
        """It lives."""
        ...

    async def forget(self, gateway: str) -> None:
        """It has ended; one that is gone is fine."""
        ...

    async def count(self, since: datetime) -> int:
        """How many were heard of since then."""
        ...
