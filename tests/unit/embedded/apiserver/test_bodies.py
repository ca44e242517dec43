"""Objects that come as protocol buffers: what stands in them, and whatever else may come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from provisioner.embedded.apiserver import bodies, protobuf
from provisioner.embedded.apiserver.bodies import Unreadable
from provisioner.embedded.apiserver.kinds import KUBERNETES_VERSION, load_builtins


def body(api_version: str, kind: str, content: bytes) -> bytes:
    """A request's body."""
    about = protobuf.data(1, protobuf.text(1, api_version) + protobuf.text(2, kind))
    return b"k8s\0" + about + protobuf.data(2, content)


def read(api_version: str, kind: str, content: bytes) -> dict[str, Any]:
    """The object of a body, without what every object has."""
    found = bodies.decode(body(api_version, kind, content))
    assert (found.pop("apiVersion"), found.pop("kind")) == (api_version, kind)
    return found


def test_maps_bytes_and_what_go_leaves_empty() -> None:
    metadata = protobuf.text(1, "keys") + protobuf.text(2, "") + protobuf.number(7, 0) + protobuf.data(8, b"")
    entry = protobuf.text(1, "one") + protobuf.data(2, b"\xff\x00")
    found = read("v1", "Secret", protobuf.data(1, metadata) + protobuf.data(2, entry) + protobuf.text(3, "Opaque"))
    assert found == {"metadata": {"name": "keys"}, "data": {"one": "/wA="}, "type": "Opaque"}


def test_stated_zero_is_kept_and_embedded_messages_are_opened() -> None:
    port = protobuf.number(1, 0) + protobuf.number(2, 8080)
    http_get = protobuf.data(2, protobuf.text(1, "/health") + protobuf.data(2, port))
    probe = protobuf.data(1, http_get) + protobuf.number(2, 0) + protobuf.number(7, 0)
    container = protobuf.text(1, "web") + protobuf.data(11, probe)
    pod = protobuf.data(2, protobuf.data(2, container) + protobuf.number(4, 0) + protobuf.number(5, -1))
    found = read("v1", "Pod", pod)
    assert found["spec"] == {
        "containers": [
            {
                "name": "web",
                "readinessProbe": {"httpGet": {"path": "/health", "port": 8080}, "terminationGracePeriodSeconds": 0},
            }
        ],
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": -1,
    }


def test_quantities_numbers_or_texts_and_times() -> None:
    amount = protobuf.text(1, "pods") + protobuf.data(2, protobuf.text(1, "9"))
    assert read("v1", "ResourceQuota", protobuf.data(2, protobuf.data(1, amount))) == {"spec": {"hard": {"pods": "9"}}}
    half = protobuf.number(1, 1) + protobuf.number(2, 0) + protobuf.text(3, "50%")
    assert read("policy/v1", "PodDisruptionBudget", protobuf.data(2, protobuf.data(1, half))) == {
        "spec": {"minAvailable": "50%"}
    }
    moment = protobuf.number(1, 1_800_000_000) + protobuf.number(2, 5_000)
    found = read("coordination.k8s.io/v1", "Lease", protobuf.data(2, protobuf.data(3, moment)))
    assert found == {"spec": {"acquireTime": "2027-01-15T08:00:00.000005Z"}}


def test_options_of_a_deletion_come_in_any_version() -> None:
    assert read("apps/v1", "DeleteOptions", protobuf.text(4, "Foreground")) == {"propagationPolicy": "Foreground"}


def test_every_built_in_kind_has_a_message() -> None:
    known = {(kind.api_version, kind.kind) for kind in load_builtins().kinds if not kind.custom}
    later = {("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("apiregistration.k8s.io/v1", "APIService")}
    for api_version, kind in known - later:
        assert read(api_version, kind, b"") == {}
    for api_version, kind in later:
        with pytest.raises(Unreadable, match="no protocol buffer here"):
            read(api_version, kind, b"")


def test_messages_within_each_other_have_an_end() -> None:
    nested = protobuf.text(1, "string")
    for _ in range(100):
        nested = protobuf.data(1, nested)
    with pytest.raises(Unreadable):
        bodies.decode(body("v1", "Pod", nested))


@given(st.binary(max_size=64), st.sampled_from(["Pod", "Secret", "ConfigMap", "PersistentVolume"]))
@example(protobuf.data(1, protobuf.data(8, protobuf.number(1, 2**63))), "Pod")
def test_any_bytes_are_read_or_refused(content: bytes, kind: str) -> None:
    try:
        assert isinstance(bodies.decode(body("v1", kind, content)), dict)
    except Unreadable:
        return


def test_messages_are_those_of_the_version_that_is_served() -> None:
    pinned = (Path(__file__).parents[4] / "tools" / "messages" / "go.mod").read_text()
    assert f"k8s.io/client-go v0.{KUBERNETES_VERSION.partition('.')[2]}." in pinned
