"""What Argo CD would say about resources: their health, their order, and whether they are what was wanted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.embedded.controllers.argocd.health import HEALTHY, MISSING, Health, assess, worst
from provisioner.embedded.controllers.argocd.resources import Resource, in_order, says, tracked
from provisioner.platform.interface import Kind

Json = dict[str, Any]
_CONFIG = Kind("", "v1", "ConfigMap", "configmaps")
_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")


def _live(api_version: str, kind: str, *, spec: Json | None = None, **status: Any) -> Json:
    metadata = {"name": "x", "generation": 2}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status}


def _conditions(**statuses: str) -> list[Json]:
    return [
        {"type": name, "status": status, "reason": "Why", "message": "said why"} for name, status in statuses.items()
    ]


_DONE: Json = {"observedGeneration": 2, "readyReplicas": 2, "updateRevision": "a", "currentRevision": "a"}
_ROLLED: Json = {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}
_ON_DELETE: Json = {"updateStrategy": {"type": "OnDelete"}}
_GATEWAY = "gateway.networking.k8s.io/v1"
_CERTIFICATE = "cert-manager.io/v1"
_REFUSED = [{"conditions": _conditions(Accepted="True", ResolvedRefs="False")}]
_ATTACHED = [{"conditions": _conditions(Accepted="True", ResolvedRefs="True")}]


@pytest.mark.parametrize(
    ("live", "status"),
    [
        (_live("apps/v1", "StatefulSet", spec={"replicas": 2}, **_DONE), "Healthy"),
        (_live("apps/v1", "StatefulSet", spec={"replicas": 3}, **_DONE), "Progressing"),
        (_live("apps/v1", "StatefulSet", **{**_DONE, "observedGeneration": 1}), "Progressing"),
        (_live("apps/v1", "StatefulSet", **{**_DONE, "updateRevision": "b"}), "Progressing"),
        (_live("apps/v1", "StatefulSet", spec=_ON_DELETE, **{**_DONE, "updateRevision": "b"}), "Healthy"),
        (_live("apps/v1", "Deployment", spec={"replicas": 2}, **_ROLLED), "Healthy"),
        (_live("apps/v1", "Deployment", spec={"replicas": 2}, **{**_ROLLED, "availableReplicas": 1}), "Progressing"),
        (_live("apps/v1", "Deployment", spec={"replicas": 2}, **{**_ROLLED, "replicas": 3}), "Progressing"),
        (_live("apps/v1", "Deployment", spec={"replicas": 2, "paused": True}, **_ROLLED), "Suspended"),
        (
            _live("apps/v1", "Deployment", observedGeneration=2, conditions=[
                {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]),
            "Degraded",
        ),
        (_live("v1", "Service"), "Healthy"),
        (_live("v1", "Service", spec={"type": "LoadBalancer"}), "Progressing"),
        (_live("v1", "PersistentVolumeClaim", phase="Bound"), "Healthy"),
        (_live("v1", "PersistentVolumeClaim", phase="Pending"), "Progressing"),
        (_live("v1", "PersistentVolumeClaim", phase="Lost"), "Degraded"),
        (_live("v1", "Pod", phase="Running", conditions=_conditions(Ready="True")), "Healthy"),
        (_live("v1", "Pod", phase="Running", conditions=_conditions(Ready="False")), "Progressing"),
        (_live("batch/v1", "Job"), "Progressing"),
        (_live("batch/v1", "Job", conditions=_conditions(Complete="True")), "Healthy"),
        (_live("batch/v1", "Job", conditions=_conditions(Failed="True")), "Degraded"),
        (_live(_CERTIFICATE, "Certificate"), "Progressing"),
        (_live(_CERTIFICATE, "Certificate", conditions=_conditions(Ready="True")), "Healthy"),
        (_live(_CERTIFICATE, "Certificate", conditions=_conditions(Ready="False")), "Degraded"),
        (_live(_CERTIFICATE, "Certificate", conditions=_conditions(Ready="False", Issuing="True")), "Progressing"),
        (_live("keda.sh/v1alpha1", "ScaledObject", conditions=_conditions(Ready="True")), "Healthy"),
        (_live("keda.sh/v1alpha1", "ScaledObject", conditions=_conditions(Ready="True", Paused="True")), "Suspended"),
        (_live(_GATEWAY, "Gateway", conditions=_conditions(Accepted="True", Programmed="True")), "Healthy"),
        (_live(_GATEWAY, "Gateway", conditions=_conditions(Accepted="True")), "Progressing"),
        (_live(_GATEWAY, "Gateway", conditions=_conditions(Accepted="False")), "Degraded"),
        (_live(_GATEWAY, "HTTPRoute"), "Progressing"),
        (_live(_GATEWAY, "HTTPRoute", parents=_ATTACHED), "Healthy"),
        (_live(_GATEWAY, "HTTPRoute", parents=_REFUSED), "Degraded"),
    ],
)  # fmt: skip
def test_health_follows_the_kind(live: Json, status: str) -> None:
    health = assess(live)
    assert health is not None
    assert health.status == status


def test_kind_without_health_has_none_and_what_is_deleted_progresses() -> None:
    live = _live("v1", "ConfigMap")
    assert assess(live) is None
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert assess(live) == Health("Progressing", "Pending deletion")


def test_application_is_as_healthy_as_its_worst_resource() -> None:
    assert worst([]) == HEALTHY
    assert worst([HEALTHY, Health("Progressing"), MISSING, Health("Suspended")]) == MISSING
    assert worst([Health("Degraded", "broken"), MISSING]) == Health("Degraded", "broken")


def _resource(kind: str, name: str, wave: int = 0) -> Resource:
    annotations = {"argocd.argoproj.io/sync-wave": str(wave)} if wave else {}
    wanted = {"metadata": {"name": name, "annotations": annotations}}
    return Resource(Kind("", "v1", kind, kind.lower()), "ns", name, wanted, None, None)


def test_resources_are_applied_by_wave_then_kind_then_name() -> None:
    resources = [
        _resource("HTTPRoute", "a"),
        _resource("StatefulSet", "a"),
        _resource("Service", "b"),
        _resource("Service", "a"),
        _resource("Namespace", "late", wave=1),
        _resource("HTTPRoute", "early", wave=-1),
        _resource("Namespace", "a"),
    ]
    assert [(item.kind.kind, item.name) for item in in_order(resources)] == [
        ("HTTPRoute", "early"),
        ("Namespace", "a"),
        ("Service", "a"),
        ("Service", "b"),
        ("StatefulSet", "a"),
        ("HTTPRoute", "a"),
        ("Namespace", "late"),
    ]


def test_manifest_is_applied_with_namespace_tracking_and_encoded_strings() -> None:
    secret = Kind("", "v1", "Secret", "secrets")
    manifest = {"metadata": {"name": "token"}, "stringData": {"key": "value"}, "data": {"other": "eA=="}}
    applied = tracked(manifest, application="ep-runtime", kind=secret, namespace="inference")
    assert applied["data"] == {"other": "eA==", "key": "dmFsdWU="}
    assert "stringData" not in applied
    assert applied["metadata"]["namespace"] == "inference"
    tracking = applied["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"]
    assert tracking == "ep-runtime:/Secret:inference/token"
    assert manifest["metadata"] == {"name": "token"}


@pytest.mark.parametrize(
    ("live", "wanted", "verdict"),
    [
        ({"a": 1, "added": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": None}, True),
        ({}, {"a": {}}, True),
        ({}, {"a": []}, True),
        ({"a": [1]}, {"a": []}, False),
        ({"a": [{"name": "x", "defaulted": 1}]}, {"a": [{"name": "x"}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_live_agrees_when_it_says_all_that_was_wanted(live: Json, wanted: Json, verdict: bool) -> None:
    assert says(live, wanted) is verdict


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), _JSON, max_size=4), st.dictionaries(st.text(max_size=3), _JSON, max_size=4))
def test_what_others_add_beside_is_no_drift(wanted: Json, added: Json) -> None:
    assert says({**added, **wanted}, wanted)


def test_status_entry_names_wave_and_pruning_but_no_health() -> None:
    wanted = {"metadata": {"name": "x", "annotations": {"argocd.argoproj.io/sync-wave": "3"}}}
    entry = Resource(_SETS, "ns", "x", wanted, None, MISSING).status()
    assert entry == {
        "group": "apps", "version": "v1", "kind": "StatefulSet", "namespace": "ns", "name": "x",
        "syncWave": 3, "status": "OutOfSync",
    }  # fmt: skip
    pruned = Resource(_CONFIG, "ns", "x", None, {"metadata": {}}, None).status()
    assert pruned["requiresPruning"] is True
    assert pruned["status"] == "OutOfSync"
