"""Delays and faults that somebody put into the embedded control plane, so that slow and broken clouds can be rehearsed.

The controllers ask for their stage's `Fault` each time they are about to move on. Stages and words stand in a file
(`<state>/faults.yaml`, read again when it changes) or are handed in by a test:

    capacity: {delaySeconds: 180}
    argo_sync: {fail: {reason: SyncError, message: "the repository said no"}}
    tenant_cluster: {back: true}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

Stage = Literal["tenant_cluster", "capacity", "argo_sync", "route", "workload"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_LOG = logging.getLogger(__name__)
_LARGEST_FILE_BYTES = 64 * 1024


class Failure(BaseModel):
    """What a failing stage reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str = "Injected"
    message: str = "a fault was injected"


class Fault(BaseModel):
    """What is wrong with one stage: it takes `delay_seconds` longer, never ends (`hang`), fails, or, once reached, is
    taken back (`back`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    delay_seconds: float = Field(default=0.0, ge=0, le=86_400)
    hang: bool = False
    fail: Failure | None = None
    back: bool = False


PACE: Mapping[Stage, float] = {"tenant_cluster": 0.3, "capacity": 0.3, "argo_sync": 0.1}
"""Seconds that a stage takes when nothing is wrong: long enough to be seen, short enough for a laptop."""

_AGAIN_SECONDS = 0.5
_FILE = TypeAdapter(dict[Stage, Fault])
_NONE = Fault()


class Faults:
    """The faults of all stages. What `put` was told wins over the file; `pace` is the ordinary duration of stages."""

    def __init__(self, path: Path | None = None, *, pace: Mapping[Stage, float] = PACE) -> None:
        self._path = path
        self._pace = pace
        self._put: dict[Stage, Fault] = {}
        self._read: Mapping[Stage, Fault] = {}
        self._stamp: tuple[int, int] | None = None

    def put(self, stage: Stage, fault: Fault | None) -> None:
        """Set a stage's fault; None takes it away."""
        if fault is None:
            self._put.pop(stage, None)
        else:
            self._put[stage] = fault

    def at(self, stage: Stage) -> Fault:
        """What is wrong with a stage now; a `Fault` without any content when nothing is."""
        self._refresh()
        return self._put.get(stage) or self._read.get(stage) or _NONE

    def gate(self, stage: Stage, *, since: datetime, now: datetime) -> Failure | float | None:
        """Whether a stage that began at `since` may end: None it may, a number of seconds to wait before asking again,
        or the failure to report."""
        fault = self.at(stage)
        left = self._pace.get(stage, 0.0) + fault.delay_seconds - (now - since).total_seconds()
        if left > 0:
            return min(left, _AGAIN_SECONDS)  # the fault may be taken away meanwhile
        if fault.fail is not None:
            return fault.fail
        return _AGAIN_SECONDS if fault.hang or fault.back else None

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._read = None, {}
            return
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            if status.st_size > _LARGEST_FILE_BYTES:
                raise ValueError(f"larger than {_LARGEST_FILE_BYTES} bytes")
            self._read = _FILE.validate_python(yaml.safe_load(self._path.read_text()) or {})
        except (OSError, ValueError, yaml.YAMLError) as error:  # ValidationError is a ValueError
            _LOG.warning("reading faults, the former ones stay: %s: %s", self._path, _describe(error))


def _describe(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
