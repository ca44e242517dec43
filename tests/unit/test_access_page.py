"""The page about access says of roles what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from provisioner.domain.access import DEFAULT_SCOPES, ROLE_SCOPES, AccessRole, Scope

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "access.md"


def expected(role: AccessRole, scope: Scope) -> str:
    if scope in DEFAULT_SCOPES[role]:
        return "yes"
    return "on request" if scope in ROLE_SCOPES[role] else ""


def test_the_table_of_roles_and_scopes_is_that_of_the_code() -> None:
    """Ledger: SEC-01."""
    text = PAGE.read_text()
    header = next(line for line in text.splitlines() if line.startswith("| scope |"))
    roles = [AccessRole(cell.strip()) for cell in header.strip("|").split("|")[1:]]
    assert set(roles) == set(AccessRole)
    rows = dict(re.findall(r"^\| `([a-z:]+)` \|(.*)\|$", text, flags=re.M))
    told = {
        Scope(scope): dict(zip(roles, map(str.strip, cells.split("|")), strict=True)) for scope, cells in rows.items()
    }
    assert told == {scope: {role: expected(role, scope) for role in roles} for scope in Scope}


def test_every_role_of_the_provider_has_what_the_one_below_it_has() -> None:
    viewer, operator, admin = (ROLE_SCOPES[role] for role in (AccessRole.VIEWER, AccessRole.OPERATOR, AccessRole.ADMIN))
    assert viewer < operator < admin
    assert Scope.INFERENCE not in admin
