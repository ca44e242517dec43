"""Gives a tenant other tiers, or another name for people: Projects of the tiers it is to have are applied as they are
rendered now, those of the tiers it loses go.

The tenant's row was written with the operation and holds all these tiers until the last step, so that no Project is
forgotten: an update that fails may be asked for again. Nothing is on the tiers it loses, nor can be put there then.
"""

from __future__ import annotations

from dataclasses import replace

from provisioner.domain.errors import NotFoundError, RetryableError
from provisioner.domain.tenant import Tenant
from provisioner.operations.step import Done, Step, Wait
from provisioner.tenants.projects import apply_projects, find_missing, remove_projects, waiting, waiting_out
from provisioner.tenants.world import TenantAttempt, World


async def ensure_wanted(attempt: TenantAttempt) -> Done | Wait:
    """The Project of every wanted tier is applied."""
    try:
        await apply_projects(attempt, _wanted(attempt))
    except RetryableError as error:
        return waiting_out(error)
    return Done()


async def confirm_wanted(attempt: TenantAttempt) -> Done | Wait:
    """The runtime key sees each of them, and the Platform has made its namespace."""
    try:
        missing = await find_missing(attempt.world, attempt.operation.subject, _wanted(attempt))
    except RetryableError as error:
        return waiting_out(error)
    return waiting("ProjectPending", f"not there yet: {missing}") if missing else Done()


async def remove_unwanted(attempt: TenantAttempt) -> Done | Wait:
    """The Projects of the tiers it loses are gone, with their namespaces."""
    tenant, wanted = await _load(attempt), _wanted(attempt)
    try:
        left = await remove_projects(attempt, [tier for tier in tenant.tiers if tier not in wanted])
    except RetryableError as error:
        return waiting_out(error)
    return waiting("Reclaiming", f"still there: {left[0]}") if left else Done()


async def settle(attempt: TenantAttempt) -> Done | Wait:
    """The tenant has the wanted tiers and no others."""
    tenant, wanted = await _load(attempt), _wanted(attempt)
    if tenant.tiers != wanted:
        settled = replace(tenant, tiers=wanted)
        await attempt.world.store.tenants.save(settled, operation=attempt.operation.id, fence=attempt.fence)
    return Done()


async def on_failed(attempt: TenantAttempt, reason: str, message: str) -> None:
    """Nothing to say beyond the operation itself: the tenant keeps every tier of which there may be a Project."""


def _wanted(attempt: TenantAttempt) -> tuple[str, ...]:
    return tuple(attempt.operation.request["tiers"])


async def _load(attempt: TenantAttempt) -> Tenant:
    tenant = await attempt.world.store.tenants.find(attempt.operation.subject)
    if tenant is None:
        raise NotFoundError(f"changing a tenant: no such tenant: {attempt.operation.subject}")
    return tenant


STEPS: tuple[Step[World], ...] = (
    Step(name="ensure_wanted", run=ensure_wanted),
    Step(name="confirm_wanted", run=confirm_wanted),
    Step(name="remove_unwanted", run=remove_unwanted),
    Step(name="settle", run=settle),
)
