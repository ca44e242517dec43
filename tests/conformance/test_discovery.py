"""What a server says about itself: version, health, discovery, OpenAPI, tables."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from provisioner.embedded.apiserver import protobuf
from tests.conformance.conftest import Api, config_map, deployment, eventually, widget_crd

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def test_version_is_a_current_one(api: Api) -> None:
    version = api.get("/version")
    assert version["major"] == "1"
    assert int(version["minor"].rstrip("+")) >= 30
    assert version["gitVersion"].startswith("v1.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_says_ok(api: Api, path: str) -> None:
    answer = api.http.get(path)
    assert (answer.status_code, answer.text) == (200, "ok")


def test_core_group_lists_its_kinds_with_verbs_and_short_names(api: Api) -> None:
    listed = api.get("/api/v1")
    assert listed["groupVersion"] == "v1"
    found = {entry["name"]: entry for entry in listed["resources"]}
    assert found["pods"]["namespaced"] is True
    assert found["nodes"]["namespaced"] is False
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods"]["singularName"] == "pod"
    assert set(found["configmaps"]["verbs"]) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }
    assert found["pods/status"]["kind"] == "Pod"
    assert "configmaps/status" not in found
    scale = {entry["name"]: entry for entry in api.get("/apis/apps/v1")["resources"]}["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_groups_are_listed_with_their_preferred_version(api: Api) -> None:
    assert api.get("/api")["versions"] == ["v1"]
    groups = {entry["name"]: entry for entry in api.get("/apis")["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert {"batch", "networking.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} <= set(groups)
    assert api.get("/apis/apps")["preferredVersion"]["version"] == "v1"
    assert api.http.get("/apis/nothing.example.com").status_code == 404


@pytest.mark.parametrize(("path", "kind"), [("/api", "Pod"), ("/apis", "Deployment")])
def test_aggregated_discovery_says_everything_at_once(api: Api, path: str, kind: str) -> None:
    answer = api.http.get(path, headers={"Accept": AGGREGATED})
    assert answer.json()["kind"] == "APIGroupDiscoveryList"
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    kinds = {
        resource["responseKind"]["kind"]: resource
        for group in answer.json()["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    assert kinds[kind]["scope"] == "Namespaced"
    assert any(entry["subresource"] == "status" for entry in kinds[kind]["subresources"])


def test_every_listed_collection_can_be_listed(api: Api) -> None:
    for group in api.get("/apis")["groups"]:
        for resource in api.get(f"/apis/{group['preferredVersion']['groupVersion']}")["resources"]:
            if "list" in resource["verbs"]:
                path = f"/apis/{group['preferredVersion']['groupVersion']}/{resource['name']}"
                assert api.http.get(path).status_code == 200, path


def test_openapi_describes_kinds_by_group_version(api: Api) -> None:
    index = api.get("/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(index)
    document = api.get(index["apis/apps/v1"]["serverRelativeURL"])
    deployment_schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert gvk in deployment_schema["x-kubernetes-group-version-kind"]
    path = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert path["patch"]["x-kubernetes-group-version-kind"] == gvk


def test_openapi_version_2_has_definitions(api: Api) -> None:
    document = api.get("/openapi/v2")
    assert document["swagger"] == "2.0"
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["type"] == "array"
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["$ref"].startswith("#/definitions/")


def openapi_messages(api: Api) -> dict[int, list[bytes]]:
    """The fields of the version 2 document as clients written in Go ask for it."""
    wanted = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = api.http.get("/openapi/v2", headers={"Accept": wanted})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    return by_field(answer.content)


def by_field(message: bytes) -> dict[int, list[bytes]]:
    """The fields of a protocol buffer that are texts or messages."""
    found: dict[int, list[bytes]] = {}
    for field, value in protobuf.fields(message):
        if isinstance(value, bytes):
            found.setdefault(field, []).append(value)
    return found


def schemas_of(document: dict[int, list[bytes]]) -> dict[str, bytes]:
    """The definitions in a version 2 document by name."""
    entries = (by_field(entry) for entry in by_field(document[9][0])[1])
    return {entry[1][0].decode(): entry[2][0] for entry in entries}


def extensions_of(schema: bytes, field: int = 31) -> dict[str, Any]:
    """What a message says beside the words of OpenAPI."""
    entries = (by_field(entry) for entry in by_field(schema)[field])
    return {entry[1][0].decode(): yaml.safe_load(by_field(entry[2][0])[2][0]) for entry in entries}


def test_openapi_version_2_comes_as_protocol_buffers(api: Api) -> None:
    document = openapi_messages(api)
    assert document[1] == [b"2.0"]
    schemas = schemas_of(document)
    gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert gvk in extensions_of(schemas["io.k8s.api.apps.v1.Deployment"])["x-kubernetes-group-version-kind"]
    properties = (by_field(entry) for entry in by_field(by_field(schemas["io.k8s.api.core.v1.PodSpec"])[25][0])[1])
    containers = {entry[1][0]: entry[2][0] for entry in properties}[b"containers"]
    assert by_field(by_field(containers)[22][0])[1] == [b"array"]
    extensions = extensions_of(containers)
    assert extensions["x-kubernetes-patch-merge-key"] == "name"
    assert extensions["x-kubernetes-list-map-keys"] == ["name"]
    paths = (by_field(entry) for entry in by_field(document[8][0])[2])
    path = {entry[1][0]: entry[2][0] for entry in paths}[b"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    patch = by_field(path)[8][0]
    assert extensions_of(patch, field=13)["x-kubernetes-group-version-kind"] == gvk


def test_openapi_version_2_follows_custom_kinds(api: Api, unique: str) -> None:
    group = f"{unique}.example.com"
    name = f"com.example.{unique}.v1.Widget"
    crd = widget_crd(group, maybe={"type": "array", "nullable": True, "items": {"type": "string"}})
    api.create(CRDS, crd)
    schema = eventually(lambda: schemas_of(openapi_messages(api)).get(name, b""))
    gvk = {"group": group, "version": "v1", "kind": "Widget"}
    assert gvk in extensions_of(schema)["x-kubernetes-group-version-kind"]
    spec = api.get("/openapi/v2")["definitions"][name]["properties"]["spec"]["properties"]
    assert spec["free"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert "type" not in spec["maybe"]
    assert spec["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert api.http.delete(f"{CRDS}/widgets.{group}").status_code == 200
    eventually(lambda: name not in schemas_of(openapi_messages(api)))


def test_openapi_documents_are_kept_by_hash_and_tag(api: Api) -> None:
    address = api.get("/openapi/v3")["paths"]["apis/apps/v1"]["serverRelativeURL"]
    first = api.http.get(address)
    assert "immutable" in first.headers["Cache-Control"]
    again = api.http.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    outdated = api.http.get("/openapi/v3/apis/apps/v1", params={"hash": "0"})
    assert outdated.status_code == 301
    assert outdated.headers["Location"].endswith(address)


def test_table_has_the_usual_columns(api: Api) -> None:
    api.create(api.path("deployments", group="apps/v1"), deployment("web", replicas=2))
    table = api.http.get(api.path("deployments", group="apps/v1"), headers=TABLE).json()
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert names == ["Name", "Ready", "Up-to-date", "Available", "Age"]
    row = table["rows"][0]
    assert row["cells"][:4] == ["web", "0/2", 0, 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "web"


def test_table_of_one_object_and_without_objects(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a", one="1"))
    table = api.http.get(api.path("configmaps", "a"), headers=TABLE).json()
    assert table["rows"][0]["cells"][:2] == ["a", 1]
    bare = api.http.get(api.path("configmaps"), headers=TABLE, params={"includeObject": "None"}).json()
    assert bare["rows"][0].get("object") is None


def test_only_what_can_be_written_is_accepted(api: Api) -> None:
    api.create(api.path("configmaps"), config_map("a"))
    answer = api.http.get(api.path("configmaps", "a"), headers={"Accept": "text/html-sandboxed"})
    assert answer.status_code == 406


def test_reviews_answer(api: Api) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}},
    }
    made = api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert made["status"]["allowed"] is True
