"""Rows and domain values: one constructor per type, and the columns of a value.

The column types of `schema` have turned text into domain values already; this only puts them together. A row of which
one could not be decoded (another version wrote it, or a hand) is an InvariantError that names the row. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Row

from provisioner.domain.audit import AuditEvent
from provisioner.domain.endpoint import Endpoint
from provisioner.domain.errors import InvariantError
from provisioner.domain.key import ApiKey
from provisioner.domain.lease import Lease
from provisioner.domain.model_version import ModelVersion
from provisioner.domain.operation import Operation, StepRecord
from provisioner.domain.orphan import Orphan
from provisioner.domain.team import Team
from provisioner.domain.tenant import Tenant
from provisioner.store.schema import Unreadable

ValueT = TypeVar("ValueT")


def columns_of(value: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are, without the named ones."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in without}


def operation_columns(operation: Operation) -> dict[str, Any]:
    """The columns of a new operation: no lease and no steps yet."""
    return columns_of(operation, "lease", "steps")


def operation_from(row: Row[Any], steps: Sequence[Row[Any]]) -> Operation:
    """An operation from its row and the rows of its steps, in order."""
    values = _decoded(row, "operation `{id}`")
    values.pop("has_steps", None)
    holder, fence, renewed_at = (values.pop(f"lease_{name}") for name in ("holder", "fence", "renewed_at"))
    lease = None if fence is None else Lease(holder=holder, fence=fence, renewed_at=renewed_at)
    return Operation(**values, lease=lease, steps=tuple(step_from(step) for step in steps))


def step_from(row: Row[Any]) -> StepRecord:
    """A step's record."""
    values = _decoded(row, "step `{name}` of operation `{operation}`")
    del values["operation"], values["position"]
    return StepRecord(**values)


def endpoint_from(row: Row[Any]) -> Endpoint:
    """An endpoint."""
    return Endpoint(**_decoded(row, "endpoint `{id}`"))


def tenant_from(row: Row[Any]) -> Tenant:
    """A tenant."""
    return Tenant(**_decoded(row, "tenant `{name}`"))


def key_from(row: Row[Any]) -> ApiKey:
    """A key."""
    return ApiKey(**_decoded(row, "key `{id}`"))


def model_version_from(row: Row[Any]) -> ModelVersion:
    """A version of a model."""
    return ModelVersion(**_decoded(row, "version `{version}` of model `{model}`"))


def team_from(row: Row[Any]) -> Team:
    """A team."""
    return Team(**_decoded(row, "team `{name}` of tenant `{tenant}`"))


def orphan_from(row: Row[Any]) -> Orphan:
    """An orphan."""
    return Orphan(**_decoded(row, "orphan `{name}`"))


def event_from(row: Row[Any]) -> AuditEvent:
    """An audit event."""
    return AuditEvent(**_decoded(row, "audit event `{id}`"))


def decoded(value: Any, *, column: str, of: str) -> Any:
    """The value. InvariantError (`RowUnreadable`) when it could not be decoded; `of` names its row."""
    if isinstance(value, Unreadable):
        raise InvariantError(
            f"reading the row of {of}: column `{column}` cannot be decoded: {value.why}",
            reason="RowUnreadable",
            hint="another version wrote it, or a hand: run the version that wrote it, or mend the row",
        )
    return value


def value_or_error(make: Callable[..., ValueT], *rows: Any) -> ValueT | InvariantError:
    """What `make` makes of the rows, or the error that names the one that cannot be decoded."""
    try:
        return make(*rows)
    except InvariantError as error:
        return error


def values_only(found: Sequence[ValueT | InvariantError]) -> list[ValueT]:
    """The values. Raises the first error among them."""
    return [_value(one) for one in found]


def _value(one: ValueT | InvariantError) -> ValueT:
    if isinstance(one, InvariantError):
        raise one
    return one


def _decoded(row: Row[Any], of: str) -> dict[str, Any]:
    """The columns of a row; `of` names it, with its own columns in braces."""
    values = row._asdict()
    if Unreadable in map(type, row):
        for column, value in values.items():
            decoded(value, column=column, of=of.format_map(values))
    return values
