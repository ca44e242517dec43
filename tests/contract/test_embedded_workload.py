"""From a workload object in a tenant cluster to a process on this machine, through the Kubernetes API only."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provisioner.embedded.children import Children
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.core.kinds import (
    ADDRESS_ANNOTATION,
    DEPLOYMENT,
    EVENT,
    JOB,
    LEASE,
    LOG_ANNOTATION,
    STATEFUL_SET,
    VOLUME_CLAIM,
)
from provisioner.embedded.controllers.kinds import INSTANCE, NODE, POD
from provisioner.embedded.controllers.loop import is_true
from provisioner.embedded.faults import Failure, Fault
from tests.contract.embedded_cluster import (
    INFERENCE,
    NAME,
    PROJECT,
    Tenant,
    deployment,
    eventually,
    make_node,
    open_tenant,
    pod_template,
    reach_tenant,
    stateful_set,
)
from tests.processes import is_running


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with open_tenant(tmp_path / "state") as found:
        yield found


async def test_pod_is_running_but_not_ready_while_its_model_loads(tenant: Tenant, tmp_path: Path) -> None:
    """Ledger: HEA-10"""
    loaded = tmp_path / "loaded"
    await tenant.create(stateful_set("one", pod_template("--loaded", str(loaded))))
    await eventually(lambda: tenant.pod("one-0"), lambda pod: "running" in state_of(pod))
    child = tenant.children.child(tenant.children.names()[0])
    await eventually(lambda: text_of(child.log), lambda text: "listening" in text)
    pod = await tenant.pod("one-0")
    assert (pod["status"]["phase"], is_true(pod, "Ready")) == ("Running", False)

    loaded.touch()
    pod = await eventually(lambda: tenant.pod("one-0"), is_ready)
    assert pod["spec"]["nodeName"] == "gpu-1"
    assert pod["metadata"]["annotations"][LOG_ANNOTATION] == f"{child.name}/log"
    found = await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 1)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]

    loaded.unlink()
    await eventually(lambda: tenant.pod("one-0"), lambda pod: not is_ready(pod))


async def test_deleted_workload_leaves_no_pod_no_process_and_no_claim(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template(), replicas=2))
    await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 2)
    pids = [pid_of(tenant.children, name) for name in tenant.children.names()]
    assert len(pids) == 2

    await tenant.api.delete(STATEFUL_SET, "one", namespace=INFERENCE, propagation="Foreground")

    await eventually(lambda: tenant.stateful_set("one"), lambda found: found == {})
    assert await tenant.api.list(POD, namespace=INFERENCE) == []
    assert tenant.children.names() == []
    assert not any(is_running(pid) for pid in pids)
    await eventually(lambda: tenant.api.list(VOLUME_CLAIM, namespace=INFERENCE), lambda claims: claims == [])


async def test_pod_stays_until_its_process_has_ended(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template("--stubborn", "1.0")))
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    child = tenant.children.child(tenant.children.names()[0])
    uid = (await tenant.pod("one-0"))["metadata"]["uid"]
    await tenant.api.delete(POD, "one-0", namespace=INFERENCE)
    while child.is_alive():
        pod = await tenant.pod("one-0")
        assert not child.is_alive() or (pod["metadata"]["uid"] == uid and "deletionTimestamp" in pod["metadata"])
        await asyncio.sleep(0.05)
    await eventually(lambda: tenant.pod("one-0"), lambda pod: is_ready(pod) and pod["metadata"]["uid"] != uid)


async def test_killed_engine_is_started_again(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template()))
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    child = tenant.children.child(tenant.children.names()[0])
    pid = pid_of(tenant.children, child.name)
    child.send(signal.SIGKILL)
    await eventually(lambda: tenant.pod("one-0"), lambda pod: not is_ready(pod))
    pod = await eventually(lambda: tenant.pod("one-0"), is_ready)
    status = pod["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 137
    assert child.pid != pid
    assert not is_running(pid)


async def test_engine_that_keeps_ending_backs_off(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template("--exit", "3")))
    pod = await eventually(
        lambda: tenant.pod("one-0"),
        lambda pod: status_of(pod).get("restartCount", 0) >= 2 and "waiting" in state_of(pod),
    )
    assert state_of(pod)["waiting"]["reason"] == "CrashLoopBackOff"
    assert status_of(pod)["lastState"]["terminated"]["exitCode"] == 3
    assert not is_ready(pod)


async def test_pod_without_room_waits_and_says_what_is_short(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template(), replicas=3))
    await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 2)
    pods = await tenant.api.list(POD, namespace=INFERENCE)
    [waiting] = [pod for pod in pods if "nodeName" not in pod["spec"]]
    [scheduled] = waiting["status"]["conditions"]
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert scheduled["message"] == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    await make_node(tenant.api, "gpu-2", gpus=1)
    await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 3)


async def test_pod_of_a_node_that_is_gone_moves(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template()))
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    await make_node(tenant.api, "gpu-2", gpus=1)
    await tenant.api.delete(NODE, "gpu-1")
    pod = await eventually(lambda: tenant.pod("one-0"), is_ready_on("gpu-2"))
    left = [f"{PROJECT}/{NAME}/{pod['metadata']['uid']}"]
    await eventually(lambda: names_of(tenant.children), lambda found: found == left)


async def test_image_without_local_engine_is_not_played(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template(image="registry.example.com/acme/other:1")))
    pod = await eventually(lambda: tenant.pod("one-0"), lambda pod: bool(state_of(pod)))
    assert pod["status"]["phase"] == "Pending"
    assert state_of(pod)["waiting"]["reason"] == "ImagePullBackOff"
    assert tenant.children.names() == []
    await eventually(lambda: events(tenant), lambda found: "Failed" in found)


async def test_stand_in_says_so_in_an_event(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template()))
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    assert (await events(tenant))["StandInEngine"] == "a stub answers"


async def test_scaled_down_claims_are_kept_and_used_again(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template(), replicas=2))
    await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 2)
    claims = {claim["metadata"]["uid"] for claim in await tenant.api.list(VOLUME_CLAIM, namespace=INFERENCE)}
    await tenant.scale(STATEFUL_SET, "one", 0)
    await eventually(lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: pods == [])
    assert tenant.children.names() == []
    await tenant.scale(STATEFUL_SET, "one", 2)
    await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 2)
    found = await tenant.api.list(VOLUME_CLAIM, namespace=INFERENCE)
    assert {claim["metadata"]["uid"] for claim in found} == claims
    assert {claim["status"]["phase"] for claim in found} == {"Bound"}


async def test_changed_template_replaces_one_pod_after_the_other(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template(), replicas=2))
    before = await eventually(lambda: tenant.stateful_set("one"), lambda found: counted(found, "readyReplicas") == 2)
    template = pod_template("--model", "better")
    await tenant.api.patch(STATEFUL_SET, "one", {"spec": {"template": template}}, namespace=INFERENCE)
    after = await eventually(
        lambda: tenant.stateful_set("one"),
        lambda found: (
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
            and counted(found, "updatedReplicas") == counted(found, "readyReplicas") == 2
        ),
    )
    assert after["status"]["currentRevision"] == after["status"]["updateRevision"]
    assert after["status"]["updateRevision"] != before["status"]["updateRevision"]


async def test_lease_of_a_replica_is_renewed_only_while_it_is_ready(tenant: Tenant, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    lease = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": "one-0", "namespace": INFERENCE}}
    await tenant.create({**lease, "spec": {}}, stateful_set("one", pod_template("--loaded", str(loaded))))
    await eventually(lambda: probes(tenant), lambda count: count >= 3)
    assert "renewTime" not in (await tenant.lease("one-0"))["spec"]
    loaded.touch()
    found = await eventually(lambda: tenant.lease("one-0"), lambda found: "renewTime" in found["spec"])
    assert found["spec"]["holderIdentity"] == "one-0"
    assert found["spec"]["leaseDurationSeconds"] == 15
    age = datetime.now(UTC) - datetime.fromisoformat(found["spec"]["renewTime"])  # noqa: TID251
    assert age.total_seconds() < 10

    loaded.unlink()
    await eventually(lambda: tenant.pod("one-0"), lambda pod: not is_ready(pod))
    long_ago = {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
    await tenant.api.patch(LEASE, "one-0", long_ago, namespace=INFERENCE)
    before = await probes(tenant)
    await eventually(lambda: probes(tenant), lambda count: count >= before + 3)
    assert (await tenant.lease("one-0"))["spec"]["renewTime"] == long_ago["spec"]["renewTime"]


async def test_deployment_rolls_to_a_new_revision_and_says_so(tenant: Tenant) -> None:
    await tenant.create(deployment("web", pod_template(gpus=0), replicas=2))
    found = await eventually(lambda: tenant.get(DEPLOYMENT, "web"), is_rolled_out)
    assert is_true(found, "Available")
    assert counted(found, "availableReplicas") == 2
    template = pod_template("--model", "better", gpus=0)
    await tenant.api.patch(DEPLOYMENT, "web", {"spec": {"template": template}}, namespace=INFERENCE)
    await eventually(
        lambda: tenant.get(DEPLOYMENT, "web"),
        lambda found: is_rolled_out(found) and found["metadata"]["annotations"].get(REVISION) == "2",
    )
    pods = await eventually(lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: len(pods) == 2)
    assert all("better" in pod["spec"]["containers"][0]["args"] for pod in pods)
    await tenant.api.delete(DEPLOYMENT, "web", namespace=INFERENCE)
    await eventually(lambda: tenant.api.list(POD, namespace=INFERENCE), lambda pods: pods == [])


async def test_job_ends_with_its_process_and_fails_honestly_without_one(tenant: Tenant) -> None:
    for name, template in (
        ("good", pod_template("--exit", "0", gpus=0)),
        ("bad", pod_template("--exit", "1", gpus=0)),
        ("unknown", pod_template(image="registry.example.com/acme/other:1", gpus=0)),
    ):
        template["spec"]["restartPolicy"] = "Never"
        spec = {"template": template, "backoffLimit": 1}
        manifest = {"apiVersion": JOB.api_version, "kind": "Job", "metadata": {"name": name, "namespace": INFERENCE}}
        await tenant.create({**manifest, "spec": spec})
    await eventually(lambda: tenant.get(JOB, "good"), lambda found: is_true(found, "Complete"))
    bad = await eventually(lambda: tenant.get(JOB, "bad"), lambda found: is_true(found, "Failed"))
    unknown = await eventually(lambda: tenant.get(JOB, "unknown"), lambda found: is_true(found, "Failed"))
    reasons = [found["status"]["conditions"][0]["reason"] for found in (bad, unknown)]
    assert reasons == ["BackoffLimitExceeded", "NoLocalEngine"]
    assert bad["status"]["failed"] == 2


async def test_tenant_cluster_that_is_gone_leaves_no_process(tenant: Tenant) -> None:
    await tenant.create(stateful_set("one", pod_template()))
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    pid = pid_of(tenant.children, tenant.children.names()[0])
    await tenant.control_plane.delete(INSTANCE, NAME, namespace=f"p-{PROJECT}")
    await eventually(lambda: names_of(tenant.children), lambda names: names == [])
    assert not is_running(pid)


async def test_injected_faults_of_the_workload_stage(tenant: Tenant) -> None:
    tenant.faults.put("workload", Fault(hang=True))
    await tenant.create(stateful_set("one", pod_template()))
    pod = await eventually(lambda: tenant.pod("one-0"), lambda pod: bool(state_of(pod)))
    assert state_of(pod)["waiting"]["reason"] == "ContainerCreating"
    tenant.faults.put("workload", Fault(fail=Failure(reason="CreateContainerError", message="no")))
    await eventually(
        lambda: tenant.pod("one-0"), lambda pod: state_of(pod)["waiting"]["reason"] == "CreateContainerError"
    )
    tenant.faults.put("workload", None)
    await eventually(lambda: tenant.pod("one-0"), is_ready)
    tenant.faults.put("workload", Fault(back=True))
    await eventually(lambda: tenant.pod("one-0"), lambda pod: not is_ready(pod))
    assert len(tenant.children.names()) == 1


async def test_plane_that_was_killed_finds_its_engine_again(tmp_path: Path) -> None:
    """One engine process before, one after, and the same one: nothing is doubled, nothing is lost."""
    state = tmp_path / "state"
    async with running_plane(state) as (plane, url), reach_tenant(url) as tenant:
        await tenant.create(stateful_set("one", pod_template()))
        before = await eventually(lambda: tenant.pod("one-0"), is_ready)
        plane.kill()
    [name] = sorted(str(lock.parent.relative_to(state / "pods")) for lock in (state / "pods").rglob("lock"))
    pid = int((state / "pods" / name / "pid").read_text())
    assert is_running(pid)

    async with running_plane(state) as (_, url), reach_tenant(url) as tenant:
        await tenant.create(stateful_set("two", pod_template()))
        await eventually(lambda: tenant.pod("two-0"), is_ready)
        after = await eventually(lambda: tenant.pod("one-0"), is_ready)
        assert address_of(after) == address_of(before)
        assert status_of(after)["restartCount"] == 0
        assert is_running(pid)
        assert len(list((state / "pods").rglob("pid"))) == 2
    assert not is_running(pid)
    Children(state / "pods").close()


async def test_engine_of_a_tenant_cluster_that_went_while_no_plane_ran_is_ended(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running_plane(state) as (plane, url), reach_tenant(url) as tenant:
        await tenant.create(stateful_set("one", pod_template()))
        await eventually(lambda: tenant.pod("one-0"), is_ready)
        plane.kill()
    stray = state / "pods" / PROJECT / "ep-gone" / "some-uid"
    stray.parent.mkdir()
    next((state / "pods" / PROJECT / NAME).iterdir()).rename(stray)
    pid = int((stray / "pid").read_text())
    async with open_tenant(state) as found:
        await eventually(lambda: names_of(found.children), lambda names: stray.name not in "".join(names))
        assert not is_running(pid)
        await eventually(lambda: found.pod("one-0"), is_ready)


REVISION = "deployment.kubernetes.io/revision"


@asynccontextmanager
async def running_plane(state: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A plane in a process of its own, and its URL; ended politely unless the test killed it."""
    module = "tests.contract.embedded_cluster"
    plane = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(state), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert plane.stdout is not None
    try:
        url = (await asyncio.wait_for(plane.stdout.readline(), 20)).decode().strip()
        yield plane, url
    finally:
        with suppress(ProcessLookupError):
            plane.terminate()
        await plane.wait()


def pid_of(children: Children, name: str) -> int:
    pid = children.child(name).pid
    assert pid is not None
    return pid


async def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def probes(tenant: Tenant) -> int:
    """How often the only engine was asked for its health."""
    names = tenant.children.names()
    return (await text_of(tenant.children.child(names[0]).log)).count("GET /health") if names else 0


async def names_of(children: Children) -> list[str]:
    return children.names()


async def events(tenant: Tenant) -> dict[str, str]:
    return {event["reason"]: event["message"] for event in await tenant.api.list(EVENT, namespace=INFERENCE)}


def status_of(pod: Json) -> Json:
    statuses: list[Json] = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return statuses[0]


def state_of(pod: Json) -> Json:
    found: Json = status_of(pod).get("state") or {}
    return found


def is_ready(pod: Json) -> bool:
    return is_true(pod, "Ready")


def is_ready_on(node: str) -> Any:
    return lambda pod: is_ready(pod) and pod["spec"]["nodeName"] == node


def is_rolled_out(found: Json) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(entry["reason"] == "NewReplicaSetAvailable" for entry in conditions)


def counted(found: Json, name: str) -> int:
    return int((found.get("status") or {}).get(name) or 0)


def address_of(pod: Json) -> str:
    return str(pod["metadata"]["annotations"][ADDRESS_ANNOTATION])
