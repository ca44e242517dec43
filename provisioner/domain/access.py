"""Who may do what with the API: roles, the scopes they consist of, and the caller that a key stands for. Pure.

A role is a set of scopes. A key may be made with fewer than its role has, never with more. A key with a tenant reaches
that tenant alone: whatever belongs to another does not exist for it. A customer's key with a team or a list of
endpoints reaches no others of its tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AccessRole(StrEnum):
    """What a key is for. `customer` keys also call endpoints; the others never reach a gateway."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    CUSTOMER = "customer"


class Scope(StrEnum):
    """One permission, `noun:action`. The values are part of the API."""

    AUDIT_READ = "audit:read"
    CATALOG_READ = "catalog:read"
    CATALOG_WRITE = "catalog:write"
    ENDPOINTS_READ = "endpoints:read"
    ENDPOINTS_WRITE = "endpoints:write"
    INFERENCE = "inference:call"
    KEYS_READ = "keys:read"
    KEYS_WRITE = "keys:write"
    OPERATIONS_READ = "operations:read"
    OPERATIONS_WRITE = "operations:write"
    TENANTS_READ = "tenants:read"
    TENANTS_WRITE = "tenants:write"
    USAGE_READ = "usage:read"


_READ = frozenset(scope for scope in Scope if scope.endswith(":read") and scope is not Scope.AUDIT_READ)
_PROVISION = frozenset({Scope.ENDPOINTS_WRITE, Scope.OPERATIONS_WRITE})

ROLE_SCOPES: Mapping[AccessRole, frozenset[Scope]] = {
    AccessRole.VIEWER: _READ,
    AccessRole.OPERATOR: _READ | _PROVISION,
    AccessRole.ADMIN: frozenset(Scope) - {Scope.INFERENCE},
    AccessRole.CUSTOMER: frozenset({Scope.ENDPOINTS_READ, Scope.ENDPOINTS_WRITE, Scope.USAGE_READ, Scope.INFERENCE}),
}
"""What each role may do at most."""

DEFAULT_SCOPES: Mapping[AccessRole, frozenset[Scope]] = {
    **ROLE_SCOPES,
    AccessRole.CUSTOMER: ROLE_SCOPES[AccessRole.CUSTOMER] - {Scope.ENDPOINTS_WRITE},
}
"""What a key may do that names no scopes: a customer's makes and deletes endpoints only where it says so."""

_RANKS = {
    role: rank
    for rank, role in enumerate((AccessRole.CUSTOMER, AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.ADMIN))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of a request: the key's id and name, and how far it reaches. `tenant` None means every tenant;
    `team` and `endpoints` narrow a customer's key."""

    key: str
    name: str
    role: AccessRole
    scopes: frozenset[Scope]
    tenant: str | None = None
    team: str | None = None
    endpoints: tuple[str, ...] | None = None

    @property
    def actor(self) -> str:
        """How operations and audit events name the caller."""
        return f"{self.role}:{self.name}"

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the permission."""
        return scope in self.scopes

    def reaches(self, tenant: str) -> bool:
        """Whether what belongs to the tenant exists for the caller."""
        return self.tenant is None or self.tenant == tenant

    def reaches_endpoint(self, tenant: str, team: str | None, endpoint: str) -> bool:
        """Whether an endpoint exists for the caller; one without a team is the whole tenant's."""
        is_own = self.team is None or team is None or self.team == team
        return self.reaches(tenant) and is_own and (self.endpoints is None or endpoint in self.endpoints)

    @property
    def is_customer(self) -> bool:
        """Whether the caller is a customer, who sees no more than what was bought."""
        return self.role is AccessRole.CUSTOMER

    def may_give(self, role: AccessRole) -> bool:
        """Whether the caller may give a key of this role away: no higher than its own."""
        return _RANKS[role] <= _RANKS[self.role]
