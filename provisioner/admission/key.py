"""The form of a new API key, and whether its maker may give it away. What it names is checked where the store is at
hand. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from provisioner.admission.form import ONE_LINE_PATTERN, TeamName, TenantName
from provisioner.catalog.entry import Entry
from provisioner.domain.access import ROLE_SCOPES, AccessRole, Principal, Scope
from provisioner.domain.finding import Finding
from provisioner.domain.snapshot import Allowance

_LAST_EXPIRY = datetime(9999, 1, 1, tzinfo=UTC)
"""A moment later than this may have no name in another time zone."""


_MOST_PER_MINUTE = 1_000_000_000


class AllowanceForm(Entry):
    """What may be sent in a minute; what is left out is not bounded."""

    requests_per_minute: Annotated[
        int | None, Field(ge=1, le=_MOST_PER_MINUTE, description="requests in a minute at most")
    ] = None
    tokens_per_minute: Annotated[
        int | None, Field(ge=1, le=_MOST_PER_MINUTE, description="tokens of prompts and answers in a minute at most")
    ] = None


class KeyForm(Entry):
    """What a key is asked for with. `endpoints` are ids or names; without them the key is for all of the tenant's."""

    name: Annotated[
        str,
        Field(
            pattern=ONE_LINE_PATTERN, max_length=63, description="what the key is for, one line of 1 to 63 characters"
        ),
    ]
    role: Annotated[AccessRole, Field(description="what the key is for: viewer, operator, admin or customer")] = (
        AccessRole.CUSTOMER
    )
    scopes: Annotated[
        tuple[Scope, ...] | None,
        Field(min_length=1, max_length=len(Scope), description="fewer permissions than the role has; without, all"),
    ] = None
    tenant: Annotated[TenantName | None, Field(description="the one tenant it reaches; a customer's key needs one")] = (
        None
    )
    team: Annotated[TeamName | None, Field(description="the one team it reaches, for a customer's key")] = None
    endpoints: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] | None,
        Field(min_length=1, max_length=100, description="ids or names of endpoints of the tenant, at most 100"),
    ] = None
    expires_at: Annotated[
        AwareDatetime | None,
        Field(lt=_LAST_EXPIRY, description="moment with a time zone from which the key is refused, before year 9999"),
    ] = None

    allowance: Annotated[
        AllowanceForm | None,
        Field(
            description="what may be sent with it in a minute, for a customer's key: requestsPerMinute, tokensPerMinute"
        ),
    ] = None

    def given_scopes(self) -> tuple[Scope, ...] | None:
        """The scopes that were named, each once."""
        return None if self.scopes is None else tuple(sorted(set(self.scopes)))

    def given_allowance(self) -> Allowance | None:
        """The bounds that were named; None without any."""
        form = self.allowance
        if form is None or (form.requests_per_minute is None and form.tokens_per_minute is None):
            return None
        return Allowance(requests_per_minute=form.requests_per_minute, tokens_per_minute=form.tokens_per_minute)


def check_key(form: KeyForm, now: datetime) -> Iterator[Finding]:
    """What is wrong with a key whoever makes it."""
    is_customer = form.role is AccessRole.CUSTOMER
    if is_customer and form.tenant is None:
        message = "reading tenant: a customer's key needs one"
        yield Finding(reason="MissingField", message=message, field="tenant", hint="name the tenant it is for")
    for field in () if is_customer else ("team", "endpoints", "allowance"):
        if getattr(form, field) is not None:
            message, hint = f"reading {field}: only a customer's key is narrowed so", "leave it out, or name a tenant"
            yield Finding(reason="InvalidValue", message=message, field=field, hint=hint)
    allowed = ROLE_SCOPES[form.role]
    for position, scope in enumerate(form.scopes or ()):
        if scope not in allowed:
            message, hint = f"reading scopes: role {form.role} has none like: {scope}", f"it has: {_listed(allowed)}"
            yield Finding(reason="InvalidValue", message=message, field=f"scopes[{position}]", hint=hint)
    if form.expires_at is not None and form.expires_at <= now:
        message = f"reading expiry: it is past: {form.expires_at.isoformat()}"
        hint = "choose a later moment, or leave it out for a key that does not expire"
        yield Finding(reason="InvalidValue", message=message, field="expiresAt", hint=hint)


def check_gift(scopes: frozenset[Scope], role: AccessRole, maker: Principal) -> Iterator[Finding]:
    """What a key of this role with these scopes may do beyond its maker. Calling endpoints is the customer's alone, so
    whoever makes keys may give it away."""
    if not maker.may_give(role):
        message, hint = f"reading role: above your own: {role}", f"yours is {maker.role}"
        yield Finding(reason="BeyondMaker", message=message, field="role", hint=hint)
    if beyond := scopes - maker.scopes - {Scope.INFERENCE}:
        message, hint = f"reading scopes: your own key lacks: {_listed(beyond)}", "name fewer scopes"
        yield Finding(reason="BeyondMaker", message=message, field="scopes", hint=hint)


def _listed(scopes: frozenset[Scope]) -> str:
    return ", ".join(sorted(scopes))
