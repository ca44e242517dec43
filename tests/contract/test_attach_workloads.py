"""What a bare API server has nobody for is played: everything that clients wait for becomes so."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.errors import TenantryError
from provisioner.embedded.controllers.api import Api
from provisioner.embedded.controllers.core.kinds import (
    AUTOSCALER,
    DAEMON_SET,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    ENDPOINTS,
    EVENT,
    JOB,
    QUOTA,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from provisioner.embedded.controllers.kinds import CERTIFICATE, NAMESPACE, SECRET
from provisioner.embedded.controllers.loop import is_true
from provisioner.embedded.survey import DEFINITION
from provisioner.platform.interface import Kind
from tests.conformance.conftest import widget_crd
from tests.contract.attached import (
    NEEDS_SERVER,
    TEMPLATE,
    WORKLOAD,
    Playground,
    metadata,
    namespace,
    playing,
    waited,
    workload,
)
from tests.contract.embedded import eventually

Json = dict[str, Any]


@pytest.fixture(params=["embedded", pytest.param("kube-apiserver", marks=NEEDS_SERVER)])
async def playground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Playground]:
    """The command with an API server of its own, and attached to a real one."""
    attach = request.getfixturevalue("kubeconfig") if request.param == "kube-apiserver" else None
    async with playing(attach, tmp_path / "state") as found:
        yield found


async def test_everything_that_clients_wait_for_becomes_so(playground: Playground) -> None:
    api = playground.api
    await apply_workloads(playground, "acme")

    found = await waited(api, DEPLOYMENT, "web", "acme", lambda item: is_true(item, "Available"))
    revision = "deployment.kubernetes.io/revision"
    await waited(api, DEPLOYMENT, "web", "acme", lambda item: revision in item["metadata"]["annotations"])
    [replica_set] = [
        item for item in await api.list(REPLICA_SET, namespace="acme") if item["metadata"]["name"].startswith("web-")
    ]
    conditions = {entry["type"]: entry["reason"] for entry in found["status"]["conditions"]}
    assert conditions["Progressing"] == "NewReplicaSetAvailable"
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert replica_set["metadata"]["annotations"][revision] == "1"
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]

    found = await waited(api, STATEFUL_SET, "data", "acme", lambda item: item["status"].get("readyReplicas") == 1)
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    found = await waited(api, DAEMON_SET, "agent", "acme", lambda item: item["status"]["numberReady"] == 1)
    assert found["status"]["updatedNumberScheduled"] == found["status"]["desiredNumberScheduled"] == 1
    await waited(api, JOB, "once", "acme", lambda item: is_true(item, "Complete"))
    await waited(api, VOLUME_CLAIM, "disk-data-0", "acme", lambda item: item["status"]["phase"] == "Bound")
    await waited(api, QUOTA, "limits", "acme", lambda item: item["status"].get("hard") == {"pods": "9"})
    await waited(api, ENDPOINTS, "web", "acme", lambda item: item["subsets"][0]["addresses"])
    budget = await waited(
        api, DISRUPTION_BUDGET, "scaled", "acme", lambda item: item["status"]["disruptionsAllowed"] == 1
    )
    assert (budget["status"]["currentHealthy"], budget["status"]["desiredHealthy"]) == (2, 1)
    scaler = await waited(api, AUTOSCALER, "scaled", "acme", lambda item: item["status"].get("currentReplicas") == 2)
    assert is_true(scaler, "AbleToScale")
    assert not is_true(scaler, "ScalingActive")
    await waited(api, SERVICE, "web", "acme", lambda item: item["status"]["loadBalancer"]["ingress"])
    await waited(api, CERTIFICATE, "web", "acme", lambda item: is_true(item, "Ready"))
    assert await api.get(SECRET, "web-tls", namespace="acme")
    told = {event["reason"] for event in await api.list(EVENT, namespace="acme")}
    assert "StandIn" in told


async def test_foreground_deletion_ends_whatever_the_kind(playground: Playground) -> None:
    api = playground.api
    await apply_workloads(playground, "goes")
    role = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
    await playground.apply({**metadata(role, "nothing", "goes"), "rules": []})
    await waited(api, DEPLOYMENT, "web", "goes", lambda item: is_true(item, "Available"))
    for kind, name in ((DEPLOYMENT, "web"), (role, "nothing"), (CERTIFICATE, "web")):
        await api.delete(kind, name, namespace="goes", propagation="Foreground")
        await eventually(lambda kind=kind, name=name: api.get(kind, name, namespace="goes"), lambda item: not item)  # type: ignore[misc]
    assert await api.list(REPLICA_SET, namespace="goes", labels={"app": "web"}) == []
    await api.delete(NAMESPACE, "goes", propagation="Foreground")
    await eventually(lambda: api.get(NAMESPACE, "goes"), lambda item: item is None)


async def test_foreground_deletion_ends_also_for_kinds_that_came_later(playground: Playground) -> None:
    api = playground.api
    await playground.apply(widget_crd("acme.example.com"))
    widgets = Kind("acme.example.com", "v1", "Widget", "widgets")
    await eventually(lambda: served(api, widgets), bool)
    await playground.apply(metadata(widgets, "one", "default"))
    await api.delete(widgets, "one", namespace="default", propagation="Foreground")
    await eventually(lambda: api.get(widgets, "one", namespace="default"), lambda item: item is None)
    await api.delete(DEFINITION, "widgets.acme.example.com", propagation="Foreground")
    await eventually(lambda: api.get(DEFINITION, "widgets.acme.example.com"), lambda item: item is None)


async def apply_workloads(playground: Playground, name: str) -> None:
    """One of everything that clients wait for, in a namespace."""
    await playground.apply(namespace(name))
    disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "disk"}, "spec": disk}
    once = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    ports = [{"port": 80, "targetPort": "http"}]
    service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
    issued = {"secretName": "web-tls", "dnsNames": ["web.example.com"], "issuerRef": {"name": "local"}}
    apart = {"selector": {"matchLabels": {"app": "scaled"}}, "template": copy.deepcopy(TEMPLATE)}
    apart["template"]["metadata"]["labels"] = {"app": "scaled"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"}
    bounds = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3}
    for manifest in (
        workload(DEPLOYMENT, "web", name),
        {**metadata(DEPLOYMENT, "scaled", name), "spec": apart},
        {**metadata(AUTOSCALER, "scaled", name), "spec": bounds},
        {
            **metadata(DISRUPTION_BUDGET, "scaled", name),
            "spec": {"maxUnavailable": "30%", "selector": apart["selector"]},
        },
        workload(STATEFUL_SET, "data", name, serviceName="data", volumeClaimTemplates=[claim]),
        {**metadata(DAEMON_SET, "agent", name), "spec": {key: WORKLOAD[key] for key in ("selector", "template")}},
        {**metadata(JOB, "once", name), "spec": {"template": once}},
        {**metadata(QUOTA, "limits", name), "spec": {"hard": {"pods": "9"}}},
        {**metadata(SERVICE, "web", name), "spec": service},
        {**metadata(CERTIFICATE, "web", name), "spec": issued},
    ):
        await playground.apply(manifest)


async def served(api: Api, kind: Kind) -> bool:
    """Whether a kind can be listed."""
    try:
        await api.list(kind)
    except TenantryError:
        return False
    return True
