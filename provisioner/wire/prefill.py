"""What a form is filled with when somebody chooses a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioner.catalog.model import Hardware
from provisioner.catalog.runtime import Parameter
from provisioner.wire.message import Message


class Prefill(Message):
    """Which parameters a request may override with what, and the master's values of these."""

    model: str
    runtime: str
    serving: Mapping[str, Any]
    parameters: Mapping[str, Parameter]
    hardware: Hardware
