"""What gateways are told of an endpoint's requests beside its replicas. Asked for with it, and changed without touching
a pod. Type only."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.domain.snapshot import Balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """`is_open` lets everybody in without a key, `max_tokens` bounds what one request may ask for; without a `balance`
    the gateways' own setting holds."""

    is_open: bool = False
    balance: Balance | None = None
    max_tokens: int | None = None
