"""Replaces every pod of an endpoint, one after another: new pods on the same volumes, with the same names and GPUs.

Where a replica is a group of pods, its leader is sent off, with whom its controller makes the whole group anew.

A replica leaves the route directory before its pod goes, and the next one's turn comes when its successor is ready,
probed and back in the directory. So with several replicas no request fails; with one, callers are told to come again
(503 with `Retry-After`) until the successor has loaded the model.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.domain.plan import TENANT_NAMESPACE, EndpointPlan
from provisioner.endpoints.change_arrival import arrival_seconds
from provisioner.endpoints.leases import lease_names, live_ordinals
from provisioner.endpoints.observe import gateway_ref, replica_backend
from provisioner.endpoints.progress import load_endpoint, wait_for, waited_seconds, waiting_out
from provisioner.endpoints.publish import published
from provisioner.endpoints.replicas import ensure_leases, list_answering, list_leases
from provisioner.endpoints.switching import SETTLING_SECONDS
from provisioner.endpoints.workloads import workload_ref
from provisioner.endpoints.world import EndpointAttempt, World
from provisioner.operations.step import Done, Step, Wait
from provisioner.platform.interface import Manifest, ObjectRef
from provisioner.platform.kinds import LEASE, POD
from provisioner.platform.route import parse_gateway
from provisioner.platform.workload import parse_pod

DEADLINE_SECONDS = 8 * 3600.0
"""Each of many replicas may load hundreds of gigabytes; the steps have a bound of their own per replica."""

LEAVING_ANNOTATION = "tenantry.io/leaving"
"""Which operation sends a pod off, and since when no gateway is told of it."""


async def note(attempt: EndpointAttempt) -> Done | Wait:
    """The pods that are to be replaced are known, by name and UID; none where the endpoint sleeps. Reads only."""
    pods = await list_answering(attempt, (await load_endpoint(attempt)).plan)
    return Done({"pods": {_name(pod): str(pod["metadata"]["uid"]) for pod in pods}})


async def replace(attempt: EndpointAttempt) -> Done | Wait:
    """Every pod that was noted has a successor that serves."""
    plan, noted = (await load_endpoint(attempt)).plan, attempt.operation.result("note")["pods"]
    tenant = attempt.world.tenant(plan)
    workload, found = await asyncio.gather(tenant.get(workload_ref(plan)), list_answering(attempt, plan))
    wanted = ((workload or {}).get("spec") or {}).get("replicas", plan.runtime.max_replicas)
    pods = {_name(pod): pod for pod in found}
    successor: Manifest | None = None
    for name in sorted(noted, key=_ordinal):
        pod = pods.get(name)
        if pod is None and _ordinal(name) >= wanted:
            continue  # the scaler took it away meanwhile
        is_old = pod is not None and pod["metadata"]["uid"] == noted[name]
        if is_old and successor is not None and (wait := await _unproven(attempt, plan, successor)):
            return wait
        if pod is None or is_old:
            return await _send_off(attempt, plan, pod) if pod else _waiting(attempt, plan, f"not there yet: {name}")
        if not parse_pod(pod).ready:
            return _waiting(attempt, plan, f"not ready yet: {name}")
        successor = pod
    if successor is not None and (wait := await _unproven(attempt, plan, successor)):
        return wait
    return Done({"replaced": len(noted)})


async def settle(attempt: EndpointAttempt) -> Done | Wait:
    """Every replica that runs is registered and in the route directory. It is what cancelling comes to as well: pods
    that were replaced stay, and the one whose turn it was serves again."""
    endpoint = await load_endpoint(attempt)
    plan, noted = endpoint.plan, attempt.operation.result("note").get("pods")
    if not noted:
        return Done()
    await ensure_leases(attempt, plan, await _lease_names(attempt, plan))
    pods = [pod for pod in await list_answering(attempt, plan) if not pod["metadata"].get("deletionTimestamp")]
    named = {backend.host for backend in await published(attempt, endpoint)}
    missing = sorted(_name(pod) for pod in pods if plan.replica_host(_ordinal(_name(pod))) not in named)
    if pods and not missing:
        return Done()
    return _waiting(attempt, plan, f"not in the route directory yet: {', '.join(missing) or 'any replica'}")


async def on_failed(attempt: EndpointAttempt, reason: str, message: str) -> None:
    """Register what runs again, as far as that goes without waiting; the operation tells what failed."""
    try:
        plan = (await load_endpoint(attempt)).plan
        await ensure_leases(attempt, plan, await _lease_names(attempt, plan))
    except (NotFoundError, RejectedError, RetryableError):
        return  # gone, or it does not answer: warming makes Leases too


async def _send_off(attempt: EndpointAttempt, plan: EndpointPlan, pod: Manifest) -> Wait:
    """Take one pod out of the route directory, then away."""
    name, tenant = _name(pod), attempt.world.tenant(plan)
    if pod["metadata"].get("deletionTimestamp"):
        return wait_for(attempt, attempt.step, reason="Draining", message=f"finishes its requests: {name}")
    if name in await _lease_names(attempt, plan):
        await attempt.guard()
        await tenant.delete(ObjectRef(LEASE, name, TENANT_NAMESPACE), fence=attempt.fence)
    backends = await published(attempt, await load_endpoint(attempt))
    if plan.replica_host(_ordinal(name)) in {backend.host for backend in backends}:
        attempt.world.wake_reconciler(plan.endpoint)
        return wait_for(attempt, attempt.step, reason="SnapshotPending", message=f"still in the directory: {name}")
    ref, now = ObjectRef(POD, name, TENANT_NAMESPACE), attempt.world.clock.now()
    since = _leaving_since(attempt, pod)
    if since is None:
        await attempt.guard()
        mark = {LEAVING_ANNOTATION: f"{attempt.operation.id} {now.isoformat()}"}
        await tenant.annotate(ref, mark, fence=attempt.fence)
        since = now
    left = (since + timedelta(seconds=SETTLING_SECONDS) - now).total_seconds()
    if left > 0:
        message = f"gateways take up the route directory without: {name}"
        return Wait(reason="Settling", message=message, retry_after_seconds=left)
    await attempt.guard()
    await tenant.delete(ref, fence=attempt.fence, uid=str(pod["metadata"]["uid"]))
    return wait_for(attempt, attempt.step, reason="Draining", message=f"finishes its requests: {name}")


async def _unproven(attempt: EndpointAttempt, plan: EndpointPlan, pod: Manifest) -> Wait | None:
    """What keeps a ready successor from serving; None when it does."""
    name = _name(pod)
    leases, gateway = await asyncio.gather(
        list_leases(attempt, plan),
        attempt.world.tenant(plan).get(gateway_ref(plan)),
    )
    if name not in {_name(lease) for lease in leases}:
        await ensure_leases(attempt, plan, set(lease_names(plan)) - {name})  # the next one's may be gone on purpose
    address = parse_gateway(gateway).address if gateway else None
    if _ordinal(name) not in live_ordinals(leases, plan, now=attempt.world.clock.now()) or address is None:
        return _waiting(attempt, plan, f"not registered yet: {name}")
    backend, runtime = replica_backend(plan, _ordinal(name), address), plan.runtime
    probed = await attempt.world.probe.replica(backend, model=runtime.served_model, kind=runtime.kind)
    if not probed.ok:
        return _waiting(attempt, plan, f"{name}: {probed.message}")
    named = {found.host for found in await published(attempt, await load_endpoint(attempt))}
    if backend.host not in named:
        attempt.world.wake_reconciler(plan.endpoint)
        return _waiting(attempt, plan, f"not in the route directory yet: {name}")
    return None


def _waiting(attempt: EndpointAttempt, plan: EndpointPlan, message: str) -> Wait:
    """Wait; RejectedError where it took longer than every replica may take together."""
    patience = len(attempt.operation.result("note")["pods"]) * arrival_seconds(plan)
    if waited_seconds(attempt) > patience:
        raise RejectedError(f"restarting: longer than seconds: {patience:g}: {message}", reason="NotReady")
    return wait_for(attempt, attempt.step, reason="Restarting", message=message)


def _leaving_since(attempt: EndpointAttempt, pod: Manifest) -> datetime | None:
    """Since when this operation sends the pod off."""
    marked = str((pod["metadata"].get("annotations") or {}).get(LEAVING_ANNOTATION, ""))
    operation, _, moment = marked.partition(" ")
    return datetime.fromisoformat(moment) if operation == attempt.operation.id else None


async def _lease_names(attempt: EndpointAttempt, plan: EndpointPlan) -> set[str]:
    return {_name(lease) for lease in await list_leases(attempt, plan)} & set(lease_names(plan))


def _name(found: Manifest) -> str:
    return str(found["metadata"]["name"])


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


STEPS: tuple[Step[World], ...] = (
    Step(name="note", run=waiting_out(note)),
    Step(name="replace", run=waiting_out(replace)),
    Step(name="settle", run=waiting_out(settle)),
)

CANCEL_STEPS: tuple[Step[World], ...] = (Step(name="cancel_settle", run=waiting_out(settle)),)
"""Pods that were replaced stay; no other one is."""
