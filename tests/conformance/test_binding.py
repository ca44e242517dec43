"""A scheduler's word on where a pod runs."""

from __future__ import annotations

from tests.conformance.conftest import Api


def test_binding_gives_a_pod_its_node_once(api: Api) -> None:
    spec = {"containers": [{"name": "server", "image": "registry.example.com/acme/server:1"}]}
    api.create(api.path("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "one"}, "target": target}
    bound = api.http.post(api.path("pods", "one", "binding"), json=binding)
    assert bound.status_code == 201, bound.text
    assert api.get(api.path("pods", "one"))["spec"]["nodeName"] == "gpu-1"
    again = api.http.post(api.path("pods", "one", "binding"), json=binding)
    assert (again.status_code, again.json()["reason"]) == (409, "Conflict")
