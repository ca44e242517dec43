"""What a request says of its traffic: whether callers want a key, how requests are spread, how long answers may be.
Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from provisioner.catalog.entry import Entry
from provisioner.domain.finding import Finding
from provisioner.domain.snapshot import Balance
from provisioner.domain.traffic import Traffic


class TrafficForm(Entry):
    """How gateways treat the endpoint's requests."""

    open: Annotated[bool, Field(description="whether everybody may call it without a key, at its own host name")] = (
        False
    )
    balance: Annotated[
        Balance | None,
        Field(
            description="which replica gets a request: round-robin each in turn, least-loaded the one with the fewest "
            "running, cache-aware (chat models) the one that knows most of the prompt; without, the gateways' setting"
        ),
    ] = None
    max_tokens: Annotated[
        int | None, Field(ge=1, le=1_000_000_000, description="tokens that one request may ask for at most")
    ] = None

    def given(self) -> Traffic:
        """What was asked for."""
        return Traffic(is_open=self.open, balance=self.balance, max_tokens=self.max_tokens)


def traffic_json(traffic: Traffic) -> dict[str, object]:
    """In the form in which it was sent, without what is as it would be anyway."""
    told = {"open": traffic.is_open or None, "balance": traffic.balance, "maxTokens": traffic.max_tokens}
    return {name: value for name, value in told.items() if value is not None}


def check_traffic(traffic: Traffic, kind: str) -> Iterator[Finding]:
    """What an endpoint with a model of this kind cannot have."""
    if traffic.balance == "cache-aware" and kind != "chat":
        message = f"reading balance: a model of this kind keeps nothing of earlier prompts to look for: {kind}"
        hint = "choose round-robin or least-loaded; cache-aware is for chat models"
        yield Finding(reason="UnsupportedBalance", message=message, field="traffic.balance", hint=hint)
    if traffic.max_tokens is not None and kind != "chat":
        message = f"reading maxTokens: requests to a model of this kind name no length: {kind}"
        yield Finding(reason="InvalidValue", message=message, field="traffic.maxTokens", hint="leave it out")
