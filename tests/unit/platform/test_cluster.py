"""Conditional writes and typed errors, against the embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.domain.errors import ConflictError, NotFoundError, RejectedError
from provisioner.domain.lease import Fence
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.interface import FENCE_ANNOTATION, Manifest, ObjectRef
from provisioner.platform.kinds import LEASE, NAMESPACE, PROJECT

ACME = ObjectRef(PROJECT, "acme-dedicated")
LOW, HIGH = Fence(3), Fence(7)


def project(**spec: Any) -> Manifest:
    return {"metadata": {"name": "acme-dedicated"}, "spec": {"displayName": "Acme", **spec}}


def fence_of(manifest: Manifest | None) -> str:
    assert manifest
    return str(manifest["metadata"]["annotations"][FENCE_ANNOTATION])


async def test_applied_object_carries_the_fence(cluster: HttpCluster) -> None:
    await cluster.apply(project(), kind=PROJECT, fence=LOW)
    stored = await cluster.get(ACME)
    assert fence_of(stored) == "3"
    assert stored and stored["spec"]["displayName"] == "Acme"


async def test_write_over_a_higher_fence_is_refused_and_changes_nothing(cluster: HttpCluster) -> None:
    written = await cluster.apply(project(), kind=PROJECT, fence=HIGH)
    for write in (
        cluster.apply(project(displayName="Late"), kind=PROJECT, fence=LOW),
        cluster.annotate(ACME, {"example.com/a": "late"}, fence=LOW),
        cluster.delete(ACME, fence=LOW),
    ):
        with pytest.raises(ConflictError) as refused:
            await write
        assert refused.value.reason == "FenceStale"
    assert await cluster.get(ACME) == written


async def test_applying_again_with_a_higher_fence_takes_over(cluster: HttpCluster) -> None:
    await cluster.apply(project(), kind=PROJECT, fence=LOW)
    await cluster.apply(project(displayName="New"), kind=PROJECT, fence=HIGH)
    stored = await cluster.get(ACME)
    assert fence_of(stored) == "7"
    assert stored and stored["spec"]["displayName"] == "New"


async def test_applying_again_leaves_what_others_wrote(cluster: HttpCluster) -> None:
    await cluster.apply(project(), kind=PROJECT, fence=LOW)
    await cluster.annotate(ACME, {"example.com/a": "theirs"}, fence=LOW)
    await cluster.apply(project(), kind=PROJECT, fence=LOW)
    stored = await cluster.get(ACME)
    assert stored and stored["metadata"]["annotations"]["example.com/a"] == "theirs"


async def test_deleted_object_is_gone_and_deleting_again_says_so(cluster: HttpCluster) -> None:
    await cluster.apply(project(), kind=PROJECT, fence=LOW)
    await cluster.delete(ACME, fence=LOW)
    assert await cluster.get(ACME) is None
    assert await cluster.delete(ACME, fence=LOW)


async def test_annotating_what_is_gone_does_nothing(cluster: HttpCluster) -> None:
    await cluster.annotate(ACME, {"example.com/a": "b"}, fence=LOW)
    assert await cluster.get(ACME) is None


async def test_lists_by_namespace_and_label(cluster: HttpCluster) -> None:
    for namespace in ("one", "two"):
        await cluster.apply({"metadata": {"name": namespace}}, kind=NAMESPACE, fence=LOW)
        for name, labels in (("a", {"team": "x"}), ("b", {"team": "y"})):
            metadata = {"name": name, "namespace": namespace, "labels": labels}
            await cluster.apply({"metadata": metadata, "spec": {}}, kind=LEASE, fence=LOW)
    found = await cluster.list(LEASE, namespace="one", labels={"team": "x"})
    assert [(item["kind"], item["metadata"]["name"]) for item in found] == [("Lease", "a")]
    assert len(await cluster.list(LEASE)) == 4


async def test_refused_object_is_the_requests_fault_with_the_causes_as_findings(cluster: HttpCluster) -> None:
    await cluster.apply({"metadata": {"name": "one"}}, kind=NAMESPACE, fence=LOW)
    bad = {"metadata": {"name": "a", "namespace": "one"}, "spec": {"leaseDurationSeconds": "soon"}}
    with pytest.raises(RejectedError) as refused:
        await cluster.apply(bad, kind=LEASE, fence=LOW)
    assert "leaseDurationSeconds" in f"{refused.value.message} {refused.value.findings}"


async def test_missing_namespace_is_not_found(cluster: HttpCluster) -> None:
    with pytest.raises(NotFoundError):
        await cluster.apply({"metadata": {"name": "a", "namespace": "none"}}, kind=LEASE, fence=LOW)


async def test_tenant_cluster_that_does_not_exist_is_not_found(clusters: LightkubeClusters) -> None:
    tenant = clusters.tenant("control-plane", "acme-dedicated", "ep-a")
    assert await tenant.get(ObjectRef(NAMESPACE, "inference")) is None
    with pytest.raises(NotFoundError):
        await tenant.list(NAMESPACE)
