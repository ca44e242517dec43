"""The application that the client talks to is the one of the API's tests."""

from __future__ import annotations

from tests.unit.api.conftest import acme, asked_tenant, clock, operator, services, transport, wakes

__all__ = ["acme", "asked_tenant", "clock", "operator", "services", "transport", "wakes"]
