"""Events about a pod, written once per pod and fact, so that `kubectl describe` tells what happened."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Literal

from provisioner.domain.errors import ConflictError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.conditions import timestamp
from provisioner.embedded.controllers.core.kinds import EVENT
from provisioner.embedded.controllers.kinds import POD

EventType = Literal["Normal", "Warning"]


async def record_event(
    api: Api, pod: Json, *, reason: str, message: str, now: datetime, type_: EventType = "Normal"
) -> None:
    """Write an Event of a pod; nothing happens when the same was written before."""
    metadata = pod["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']} {reason} {message}".encode()).hexdigest()[:16]
    event = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{metadata['name']}.{digest}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "reason": reason,
        "message": message,
        "type": type_,
        "source": {"component": "tenantry-embedded", "host": pod["spec"].get("nodeName", "")},
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
    try:
        await api.create(EVENT, event)
    except ConflictError:
        return
