"""From a workload object in a tenant cluster to a process on this machine, through the Kubernetes API only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.embedded.controllers.core.kinds import (
    STATEFUL_SET,
)
from provisioner.embedded.controllers.loop import is_true
from tests.contract.embedded_cluster import INFERENCE, Tenant, eventually, open_tenant, pod_template, stateful_set


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with open_tenant(tmp_path / "state") as found:
        yield found


async def test_pod_is_running_but_not_ready_while_its_model_loads(tenant: Tenant, tmp_path: Path) -> None:
    """Ledger: HEA-10"""
    loaded = tmp_path / "loaded"
    await tenant.create(stateful_set("one", pod_template("--loaded", str(loaded))))
    pod = await eventually(lambda: tenant.pod("one-0"), lambda pod: _state(pod) == "running")
    child = tenant.children.child(tenant.children.names()[0])
    await eventually(lambda: _log(child.log), lambda text: "listening" in text)
    pod = await tenant.pod("one-0")
    assert (pod["status"]["phase"], is_true(pod, "Ready")) == ("Running", False)
    loaded.touch()
    pod = await eventually(lambda: tenant.pod("one-0"), lambda pod: is_true(pod, "Ready"))
    assert pod["spec"]["nodeName"] == "gpu-1"
    found = await eventually(
        lambda: tenant.api.get(STATEFUL_SET, "one", namespace=INFERENCE),
        lambda found: found["status"].get("readyReplicas") == 1,
    )
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    loaded.unlink()
    await eventually(lambda: tenant.pod("one-0"), lambda pod: not is_true(pod, "Ready"))


async def _log(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _state(pod: dict) -> str | None:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ({},)
    return next(iter(statuses[0].get("state") or ()), None)
