"""Publishing a tier: versions of a template are added, never edited."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.domain.errors import ConflictError, RejectedError
from provisioner.domain.lease import Fence
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.interface import Manifest, ObjectRef
from provisioner.platform.kinds import NODE_PROFILE, VIRTUAL_CLUSTER_TEMPLATE
from provisioner.platform.publish import publish_objects

REF = ObjectRef(VIRTUAL_CLUSTER_TEMPLATE, "tenantry-dedicated")
FENCE = Fence(0)


def template(version: str, values: str = "a: 1") -> Manifest:
    chart: dict[str, Any] = {"name": "vcluster", "version": "0.36.1"}
    body = {"helmRelease": {"chart": chart, "values": values}}
    return {
        "apiVersion": "management.loft.sh/v1",
        "kind": "VirtualClusterTemplate",
        "metadata": {"name": "tenantry-dedicated"},
        "spec": {"versions": [{"version": version, "template": body}]},
    }


async def versions(cluster: HttpCluster) -> list[str]:
    stored = await cluster.get(REF)
    assert stored
    return [entry["version"] for entry in stored["spec"]["versions"]]


async def test_new_version_is_added_beside_the_published_one(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    await publish_objects(cluster, [template("1.1.0", "a: 2")], fence=FENCE)
    assert await versions(cluster) == ["1.0.0", "1.1.0"]


async def test_publishing_again_changes_nothing(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    assert await versions(cluster) == ["1.0.0"]


async def test_published_version_is_never_edited(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    with pytest.raises(RejectedError) as refused:
        await publish_objects(cluster, [template("1.0.0", "a: 2")], fence=FENCE)
    assert refused.value.reason == "VersionPublished"
    stored = await cluster.get(REF)
    assert stored and stored["spec"]["versions"][0]["template"]["helmRelease"]["values"] == "a: 1"


async def test_application_template_is_never_changed_in_place(cluster: HttpCluster) -> None:
    def components(version: str) -> Manifest:
        source = {"repoURL": "https://charts.example.com", "chart": "keda", "targetRevision": version}
        return {
            "apiVersion": "management.loft.sh/v1",
            "kind": "ArgoCDApplicationTemplate",
            "metadata": {"name": "tenantry-gpu-stack-dedicated-1-0-0"},
            "spec": {"template": {"spec": {"sources": [source]}}},
        }

    await publish_objects(cluster, [components("1.0.0")], fence=FENCE)
    await publish_objects(cluster, [components("1.0.0")], fence=FENCE)
    with pytest.raises(RejectedError) as refused:
        await publish_objects(cluster, [components("1.0.1")], fence=FENCE)
    assert refused.value.reason == "VersionPublished"


async def test_nothing_of_a_tier_is_written_when_its_template_is_refused(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    profile = {"apiVersion": "management.loft.sh/v1", "kind": "NodeProfile", "metadata": {"name": "tenantry-dedicated"}}
    with pytest.raises(RejectedError):
        await publish_objects(cluster, [profile, template("1.0.0", "a: 2")], fence=FENCE)
    assert await cluster.get(ObjectRef(NODE_PROFILE, "tenantry-dedicated")) is None


async def test_version_that_somebody_publishes_meanwhile_is_not_lost(
    cluster: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_objects(cluster, [template("1.0.0")], fence=FENCE)
    apply = HttpCluster.apply

    async def slow(self: HttpCluster, manifest: Manifest, **arguments: Any) -> Manifest:
        monkeypatch.setattr(HttpCluster, "apply", apply)
        await publish_objects(cluster, [template("1.1.0")], fence=FENCE)
        return await apply(self, manifest, **arguments)

    monkeypatch.setattr(HttpCluster, "apply", slow)
    with pytest.raises(ConflictError):
        await publish_objects(cluster, [template("1.2.0")], fence=FENCE)
    assert await versions(cluster) == ["1.0.0", "1.1.0"]


async def test_kind_that_no_tier_publishes_is_refused(cluster: HttpCluster) -> None:
    with pytest.raises(RejectedError):
        await publish_objects(cluster, [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}], fence=FENCE)
