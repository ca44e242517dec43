"""Requests about API keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.client.call import Call, Flow, change, every, path_of
from provisioner.wire.key import KeyCreated, KeyView


def create_key(body: Mapping[str, Any], *, idempotency_key: str) -> Call[KeyCreated]:
    """Make a key; `body` says `name` and, as wanted, `tenant`, `role`, `scopes`, `team`, `endpoints`, `expiresAt`,
    `allowance`. It is a customer's unless a role is named. The secret is in the answer and nowhere else: a repeated
    request has none.
    """
    return change("POST", "/keys", KeyCreated, idempotency_key=idempotency_key, body=body)


def list_keys(tenant: str | None = None) -> Flow[KeyView]:
    """Every key, or a tenant's, newest first."""
    return every(KeyView, "/keys", {"tenant": tenant})


def revoke_key(key: str, *, idempotency_key: str) -> Call[KeyView]:
    """Revoke a key."""
    return change("DELETE", path_of("keys", key), KeyView, idempotency_key=idempotency_key)
