"""Requests about external fallback of endpoints. Pure."""

from __future__ import annotations

from provisioner.client.call import Call, Flow, change, every, get, path_of
from provisioner.wire.fallback import FallbackRequestView, FallbackView


def list_fallbacks(tenant: str | None = None) -> Flow[FallbackView]:
    """Every endpoint's choice, or those of a tenant."""
    return every(FallbackView, "/fallbacks", {"tenant": tenant})


def get_fallback(endpoint: str) -> Call[FallbackView]:
    """What was chosen for an endpoint."""
    return get(FallbackView, path_of("fallbacks", endpoint))


def choose_fallback(
    endpoint: str, policy: str, *, enabled: bool, privacy_acknowledged: bool, idempotency_key: str
) -> Call[FallbackView]:
    """Choose a policy of the site for an endpoint."""
    body = {"policy": policy, "enabled": enabled, "privacyAcknowledged": privacy_acknowledged}
    return change("PUT", path_of("fallbacks", endpoint), FallbackView, idempotency_key=idempotency_key, body=body)


def remove_fallback(endpoint: str, *, idempotency_key: str) -> Call[None]:
    """Take the choice back."""
    headers = {"Idempotency-Key": idempotency_key}
    return Call(method="DELETE", path=path_of("fallbacks", endpoint), read=lambda _: None, headers=headers)


def list_requests(endpoint: str) -> Flow[FallbackRequestView]:
    """What went outside of an endpoint's requests, and why others did not, newest first."""
    return every(FallbackRequestView, "/fallback-requests", {"endpoint": endpoint})
