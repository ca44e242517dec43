"""An endpoint that sleeps, and everything behind the gateway that can be away, on real processes with a real model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.domain.lease import Fence
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import SCALED_OBJECT
from tests.e2e.conftest import Installation

pytestmark = pytest.mark.timeout(300)

REQUEST = """\
name: nap
tenant: acme
model: gemma-3-270m
region: local
tier: dedicated
scaling: {minReplicas: 0, maxReplicas: 1}
serving: {maxModelLen: 512, autoscalingSignal: gateway-queue}
"""


@pytest.fixture(scope="module")
def secret(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tenant with an endpoint `acme/nap` that may sleep, and a key of its."""
    file = tmp_path_factory.mktemp("request") / "REQUEST.yaml"
    file.write_text(REQUEST)
    installation.data("tenant", "create", "acme", "--tier", "dedicated", "--wait")
    installation.data("endpoint", "create", "-f", str(file), "--wait", "--timeout", "2m")
    return str(json.loads(installation.data("key", "create", "acme", "-o", "json"))["secret"])


def shown(installation: Installation) -> dict[str, Any]:
    """The endpoint, as an operator sees it."""
    found: dict[str, Any] = json.loads(installation.data("endpoint", "show", "acme/nap", "-o", "json"))
    return found


def ask(installation: Installation, secret: str) -> httpx2.Response:
    """One call of a customer."""
    url = f"http://127.0.0.1:{installation.laptop.ports.gateway}/v1/chat/completions"
    body = {"model": "nap", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.post(url, json=body, headers=headers, timeout=120, trust_env=False)


def replicas(installation: Installation) -> list[str]:
    """The replicas that gateways are told of."""
    settings = installation.laptop.settings
    headers = {"Authorization": f"Bearer {settings.gateway_key_file.read_text().strip()}"}
    answer = httpx2.get(f"{settings.url}/internal/snapshots", headers=headers, timeout=60, trust_env=False)
    (route,) = [route for route in answer.json()["routes"] if route["alias"] == "nap"]
    return [backend["host"] for backend in route["backends"]]


async def put_to_sleep(installation: Installation) -> None:
    """Has the scaler hold no replica, as one does that has seen no request for a while."""
    found = shown(installation)
    ids, clusters = found["identifiers"], LightkubeClusters(installation.laptop.settings.kubeconfig)
    tenant = clusters.tenant("control-plane", ids["project"], ids["tenantCluster"])
    name = f"{found['id']}-{ids['revision']}"
    ref = ObjectRef(SCALED_OBJECT, name, "inference")
    stored = await tenant.get(ref)
    assert stored
    fence = Fence(int(stored["metadata"].get("annotations", {}).get("tenantry.io/fence", 0)))
    await tenant.annotate(ref, {"autoscaling.keda.sh/paused-replicas": "0"}, fence=fence)
    await clusters.close()


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    """Waits for it, or fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_request_wakes_an_endpoint_that_sleeps_and_is_answered(installation: Installation, secret: str) -> None:
    """One question for however many requests, one operation, and each of them is answered."""
    wait_until(lambda: ask(installation, secret).status_code == 200)
    asyncio.run(put_to_sleep(installation))
    wait_until(lambda: not replicas(installation))
    with ThreadPoolExecutor() as callers:
        answers = list(callers.map(lambda _: ask(installation, secret), range(3)))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert answers[0].json()["choices"][0]["message"]["content"]
    assert len(replicas(installation)) == 1
    operations = json.loads(installation.data("operation", "list", "--tenant", "acme", "-o", "json"))
    warms = [one for one in operations if one["verb"] == "endpoint.warm"]
    assert len(warms) == 1


def test_inference_goes_on_with_database_and_control_plane_stopped(installation: Installation, secret: str) -> None:
    """Everything but gateway and replica is gone, then the gateway starts again from its disk.

    Ledger: LIF-12, ROU-07, GW-01
    """
    laptop = installation.laptop
    wait_until(lambda: ask(installation, secret).status_code == 200)
    serve = laptop.child("serve")
    assert serve.pid is not None
    os.killpg(serve.pid, signal.SIGKILL)
    database = Path(laptop.state / "tenantry.sqlite")
    away = database.rename(database.with_suffix(".away"))
    try:
        assert [ask(installation, secret).status_code for _ in range(5)] == [200] * 5
        gateway = laptop.child("gateway")
        assert gateway.pid is not None
        os.killpg(gateway.pid, signal.SIGKILL)
        wait_until(lambda: not gateway.is_alive())
        laptop.restart("gateway")
        assert [ask(installation, secret).status_code for _ in range(5)] == [200] * 5
    finally:
        away.rename(database)
        laptop.restart("serve")
    assert shown(installation)["phase"] == "Ready"
