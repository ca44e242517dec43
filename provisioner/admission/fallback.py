"""The form in which an administrator chooses a fallback for an endpoint, and the rules of a choice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import Field

from provisioner.catalog.entry import Entry
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.fallback import FallbackChoice, FallbackPolicy
from provisioner.domain.finding import Finding, unknown_name_hint


class FallbackForm(Entry):
    """The policy of an endpoint. Both of the others have to be true before anything is sent outside."""

    policy: Annotated[str, Field(max_length=63, description="a policy of the site")]
    enabled: Annotated[bool, Field(description="whether requests may go outside now")]
    privacy_acknowledged: Annotated[
        bool, Field(description="that somebody answers for prompts and answers leaving the installation")
    ] = False


def check_choice(form: FallbackForm, endpoint: Endpoint, policies: Mapping[str, FallbackPolicy]) -> tuple[Finding, ...]:
    """What is wrong with the choice: an unknown policy, or one that has no such model."""
    policy = policies.get(form.policy)
    if policy is None:
        message = f"reading policy: unknown `{form.policy}`"
        hint = unknown_name_hint(form.policy, policies) if policies else "declare it under `fallbacks` in site.yaml"
        return (Finding(reason="UnknownPolicy", message=message, field="policy", hint=hint),)
    model = endpoint.plan.runtime.model
    if model not in policy.models:
        message = f"reading policy: `{policy.name}` maps no model to this endpoint's: `{model}`"
        hint = f"it maps: {', '.join(sorted(policy.models))}"
        return (Finding(reason="ModelNotMapped", message=message, field="policy", hint=hint),)
    return ()


def choice_of(
    form: FallbackForm, endpoint: Endpoint, before: FallbackChoice | None, *, actor: str, now: datetime
) -> FallbackChoice:
    """The endpoint's choice. An acknowledgement that stands for the same policy keeps its name and its moment."""
    by, at = "", None
    if form.privacy_acknowledged:
        is_kept = before is not None and before.policy == form.policy and before.acknowledged_at is not None
        by, at = (before.acknowledged_by, before.acknowledged_at) if before and is_kept else (actor, now)
    return FallbackChoice(
        endpoint=endpoint.id,
        tenant=endpoint.tenant,
        policy=form.policy,
        enabled=form.enabled,
        changed_at=now,
        acknowledged_by=by,
        acknowledged_at=at,
    )
