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


_FILE = TypeAdapter(dict[Stage, Fault])
_NONE = Fault()


class Faults:
    """The faults of all stages. What `put` was told wins over the file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
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
            detail = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            _LOG.warning("reading faults, the former ones stay: %s: %s", self._path, detail)
