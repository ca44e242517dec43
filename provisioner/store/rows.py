"""Rows and domain values: one constructor per type, and the columns of a value.

The column types of `schema` have turned text into domain values already; this only puts them together. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from provisioner.domain.endpoint import Endpoint
from provisioner.domain.key import ApiKey
from provisioner.domain.lease import Lease
from provisioner.domain.operation import Operation, StepRecord
from provisioner.domain.tenant import Tenant


def columns_of(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are, without the named ones."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in without}


def operation_columns(operation: Operation) -> dict[str, Any]:
    """The columns of a new operation: no lease and no steps yet."""
    return columns_of(operation, "lease", "steps")


def operation_from(row: Row[Any], steps: Sequence[Row[Any]]) -> Operation:
    """An operation from its row and the rows of its steps, in order."""
    values = row._asdict()
    holder, fence, renewed_at = (values.pop(f"lease_{name}") for name in ("holder", "fence", "renewed_at"))
    lease = None if fence is None else Lease(holder=holder, fence=fence, renewed_at=renewed_at)
    return Operation(**values, lease=lease, steps=tuple(step_from(step) for step in steps))


def step_from(row: Row[Any]) -> StepRecord:
    """A step's record."""
    values = row._asdict()
    del values["operation"], values["position"]
    return StepRecord(**values)


def endpoint_from(row: Row[Any]) -> Endpoint:
    """An endpoint."""
    return Endpoint(**row._asdict())


def tenant_from(row: Row[Any]) -> Tenant:
    """A tenant."""
    return Tenant(**row._asdict())


def key_from(row: Row[Any]) -> ApiKey:
    """A key."""
    return ApiKey(**row._asdict())
