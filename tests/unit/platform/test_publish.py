"""Publishing a tier: versions of a template are added, never edited."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from provisioner.domain.errors import ConflictError, RejectedError
from provisioner.domain.lease import Fence
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.interface import Manifest, ObjectRef
from provisioner.platform.kinds import NODE_PROFILE, VIRTUAL_CLUSTER_TEMPLATE
from provisioner.platform.publish import Change, propose, publish

REF = ObjectRef(VIRTUAL_CLUSTER_TEMPLATE, "tenantry-dedicated")
FENCE = Fence(0)


async def publish_objects(cluster: HttpCluster, objects: list[Manifest], *, force: bool = False) -> tuple[Change, ...]:
    """Propose and publish, as the command does; what was proposed."""
    publication = await propose(cluster, objects, tier="dedicated", fence=FENCE, force=force)
    await publish(cluster, publication, fence=FENCE)
    return publication.changes


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
    await publish_objects(cluster, [template("1.0.0")])
    await publish_objects(cluster, [template("1.1.0", "a: 2")])
    assert await versions(cluster) == ["1.0.0", "1.1.0"]


async def test_publishing_again_changes_nothing(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")])
    await publish_objects(cluster, [template("1.0.0")])
    assert await versions(cluster) == ["1.0.0"]


async def test_published_version_is_never_edited(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0", "a: 1\n")])
    with pytest.raises(RejectedError) as refused:
        await publish_objects(cluster, [template("1.0.0", "a: {b: 2}\nc: 3\n")])
    assert refused.value.reason == "VersionPublished"
    told = "publishing template `tenantry-dedicated`: it differs from the published version: 1.0.0: in "
    assert refused.value.message == told + "`template.helmRelease.values>a`, `template.helmRelease.values>c`"
    stored = await cluster.get(REF)
    assert stored and stored["spec"]["versions"][0]["template"]["helmRelease"]["values"] == "a: 1\n"


async def test_defaults_that_a_server_adds_are_no_change_of_a_version(cluster: HttpCluster) -> None:
    def defaulted(more: dict[str, Any], values: str = "a: 1") -> Manifest:
        made = template("1.0.0", values)
        made["spec"]["versions"][0]["template"] |= more
        return made

    await publish_objects(cluster, [defaulted({"metadata": {"labels": {"a": "b"}}}, "a: 1\nb: 2")])
    with pytest.raises(RejectedError, match=r"in `template\.helmRelease\.values>b`$"):
        await publish_objects(cluster, [template("1.0.0", "a: 1\n")])
    await publish_objects(cluster, [defaulted({"metadata": {}}, "a: 1\nb: 2")])
    assert await versions(cluster) == ["1.0.0"]


async def test_application_template_is_never_changed_in_place(cluster: HttpCluster) -> None:
    def components(version: str) -> Manifest:
        source = {"repoURL": "https://charts.example.com", "chart": "keda", "targetRevision": version}
        return {
            "apiVersion": "management.loft.sh/v1",
            "kind": "ArgoCDApplicationTemplate",
            "metadata": {"name": "tenantry-gpu-stack-dedicated-1-0-0"},
            "spec": {"template": {"spec": {"sources": [source]}}},
        }

    await publish_objects(cluster, [components("1.0.0")])
    await publish_objects(cluster, [components("1.0.0")])
    with pytest.raises(RejectedError) as refused:
        await publish_objects(cluster, [components("1.0.1")])
    assert refused.value.reason == "VersionPublished"
    assert refused.value.message == (
        "publishing template `tenantry-gpu-stack-dedicated-1-0-0`: it differs from what is published under this name: "
        "in `template.spec.sources[keda].targetRevision`"
    )


async def test_nothing_of_a_tier_is_written_when_its_template_is_refused(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [template("1.0.0")])
    profile = {"apiVersion": "management.loft.sh/v1", "kind": "NodeProfile", "metadata": {"name": "tenantry-dedicated"}}
    with pytest.raises(RejectedError):
        await publish_objects(cluster, [profile, template("1.0.0", "a: 2")])
    assert await cluster.get(ObjectRef(NODE_PROFILE, "tenantry-dedicated")) is None


async def test_version_that_somebody_publishes_meanwhile_is_not_lost(
    cluster: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_objects(cluster, [template("1.0.0")])
    apply = HttpCluster.apply

    async def slow(self: HttpCluster, manifest: Manifest, **arguments: Any) -> Manifest:
        monkeypatch.setattr(HttpCluster, "apply", apply)
        await publish_objects(cluster, [template("1.1.0")])
        return await apply(self, manifest, **arguments)

    monkeypatch.setattr(HttpCluster, "apply", slow)
    with pytest.raises(ConflictError):
        await publish_objects(cluster, [template("1.2.0")])
    assert await versions(cluster) == ["1.0.0", "1.1.0"]


async def test_kind_that_no_tier_publishes_is_refused(cluster: HttpCluster) -> None:
    with pytest.raises(RejectedError):
        await publish_objects(cluster, [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}])


def profile(name: str = "tenantry-dedicated", **labels: str) -> Manifest:
    tier = {"app.kubernetes.io/managed-by": "tenantry", "tenantry.io/tier": "dedicated"}
    return {
        "apiVersion": "management.loft.sh/v1",
        "kind": "NodeProfile",
        "metadata": {"name": name, "labels": {**tier, **labels}},
        "spec": {"nodeLabels": {"tenantry.io/tier": "dedicated"}},
    }


async def by_hand(cluster: HttpCluster, manifest: Manifest) -> None:
    """Somebody else's write, under a field manager of their own."""
    path = "/apis/management.loft.sh/v1/nodeprofiles"
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{cluster.url}{path}?fieldManager=by-hand", json=manifest)
    assert answer.status_code == 201


async def test_proposal_says_what_would_change_and_writes_nothing(cluster: HttpCluster) -> None:
    await publish_objects(cluster, [profile()])
    changed = {**profile(), "spec": {"nodeLabels": {"tenantry.io/tier": "dedicated", "new": "yes"}}}
    publication = await propose(cluster, [changed, template("1.0.0")], tier="dedicated", fence=FENCE)
    [first, second] = publication.changes
    assert first.before and first.after
    assert first.before["spec"]["nodeLabels"] == {"tenantry.io/tier": "dedicated"}
    assert first.after["spec"]["nodeLabels"]["new"] == "yes"
    assert (second.before, second.ref) == (None, REF)
    assert await cluster.get(REF) is None
    stored = await cluster.get(ObjectRef(NODE_PROFILE, "tenantry-dedicated"))
    assert stored and "new" not in stored["spec"]["nodeLabels"]


async def test_fields_of_others_are_left_to_them_unless_they_are_taken_over(cluster: HttpCluster) -> None:
    await by_hand(cluster, {**profile(), "spec": {"nodeLabels": {"tenantry.io/tier": "by-hand"}}})
    with pytest.raises(RejectedError) as refused:
        await publish_objects(cluster, [template("1.0.0"), profile()])
    assert refused.value.reason == "FieldConflict"
    assert refused.value.findings and "--force-conflicts" in (refused.value.hint or "")
    assert all("applying NodeProfile `" in finding.message for finding in refused.value.findings)
    assert await cluster.get(REF) is None
    await publish_objects(cluster, [template("1.0.0"), profile()], force=True)
    stored = await cluster.get(ObjectRef(NODE_PROFILE, "tenantry-dedicated"))
    assert stored and stored["spec"]["nodeLabels"] == {"tenantry.io/tier": "dedicated"}


async def test_what_no_version_names_any_more_is_removed_and_nothing_else(cluster: HttpCluster) -> None:
    named = template("1.0.0", "profile: tenantry-old")
    await publish_objects(cluster, [profile("tenantry-old"), profile("tenantry-unused"), named])
    await by_hand(cluster, profile("made-by-hand"))
    await cluster.apply(profile("of-another", **{"tenantry.io/tier": "shared"}), kind=NODE_PROFILE, fence=FENCE)
    changes = await publish_objects(cluster, [profile(), named])
    assert [change.ref.name for change in changes if change.after is None] == ["tenantry-unused"]
    left = {item["metadata"]["name"] for item in await cluster.list(NODE_PROFILE)}
    assert left == {"tenantry-dedicated", "tenantry-old", "of-another", "made-by-hand"}
