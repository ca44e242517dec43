"""An installation applied to both servers: taken field by field, settled at once, and judged by its own policies."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache, partial

import httpx2
import pytest

from provisioner.embedded.apiserver.kinds import load_builtins
from tests.conformance.conftest import APPLY, eventually
from tests.conformance.servers import Server
from tests.contract.test_runtime import embedded_crds
from tests.unit.rendering.installations import Object, objects_of

PREREQUISITES = ("envoy-gateway-system", "monitoring", "product", "vcluster-platform", "velero")
APPROVED = {"api-approved.kubernetes.io": "unapproved, for tests only"}
GATEWAY = ("Deployment", "tenantry-gateway")
SHARED = "loft-pool-shared-v-pool"


@pytest.fixture(scope="module")
def cluster(server: Server) -> Iterator[httpx2.Client]:
    """A server with what has to be there before, and the example installation."""
    with server.client() as http:
        if server.name != "embedded":
            for crd in embedded_crds():
                made = {**crd, "metadata": {**crd["metadata"], "annotations": APPROVED}}
                answer = http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=made)
                assert answer.is_success, answer.text
            for crd in embedded_crds():
                eventually(partial(_is_served, http, crd))
        for name in PREREQUISITES:
            assert http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).is_success
        for made in objects_of("reference"):
            answer = _apply(http, made)
            assert answer.status_code in (200, 201), answer.text
            warning = answer.headers.get("Warning", "")
            assert not warning or made["type"] == "kubernetes.io/tls", warning  # there is a hole where its key belongs
        yield http


def test_everything_is_taken_and_applied_again_changes_nothing(cluster: httpx2.Client) -> None:
    for made in objects_of("reference"):
        before = cluster.get(_path(made)).json()["metadata"]["resourceVersion"]
        assert _apply(cluster, made).json()["metadata"]["resourceVersion"] == before, made["metadata"]["name"]


def test_our_own_pods_are_admitted_and_others_are_not(cluster: httpx2.Client, server: Server) -> None:
    """Ledger: SEC-02 (enforced where we run)."""
    if server.name == "embedded":
        pytest.skip("the embedded server evaluates no policies")
    for made in objects_of("reference"):
        if made["kind"] == "Deployment":
            pod = _pod(made["spec"]["template"], namespace="tenantry")
            eventually(partial(_is_admitted, cluster, pod))
    with_token = copy.deepcopy(pod)
    with_token["spec"]["automountServiceAccountToken"] = True
    eventually(lambda: "service-account-token" in _create(cluster, with_token).text)
    unpinned = copy.deepcopy(pod)
    unpinned["spec"]["containers"][0]["image"] = "registry.example.com/platform/tenantry:main"
    eventually(lambda: "image-digest" in _create(cluster, unpinned).text)


def test_pods_of_tenants_on_shared_nodes_are_judged_and_their_control_planes_are_not(
    cluster: httpx2.Client, server: Server
) -> None:
    if server.name == "embedded":
        pytest.skip("the embedded server evaluates no policies")
    labels = {"tenantry.io/policies": "shared-nodes"}
    namespace = {"metadata": {"name": SHARED, "labels": labels}}
    assert cluster.post("/api/v1/namespaces", json=namespace).is_success
    [gateway] = (made for made in objects_of("reference") if (made["kind"], made["metadata"]["name"]) == GATEWAY)
    own = copy.deepcopy(_pod(gateway["spec"]["template"], namespace=SHARED))
    own["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    synced = copy.deepcopy(own)
    synced["metadata"]["labels"] = {"vcluster.loft.sh/managed-by": "pool"}
    eventually(lambda: "host-access" in _create(cluster, synced).text)
    assert _create(cluster, own).status_code == 201


MAY = {
    "tenantry-bootstrap": {
        ("projects", "create"),
        ("projects", "delete"),
        ("virtualclustertemplates", "patch"),
        ("nodeproviders", "create"),
    },
    "tenantry-runtime": {
        ("projects", "get"),
        ("namespaces", "get"),
        ("httproutes", "create"),
        ("httproutes", "delete"),
        ("httproutes", "list"),
    },
}
ASKED = {
    **dict.fromkeys(("projects", "users", "teams", "ownedaccesskeys", "nodeproviders"), "management.loft.sh"),
    **dict.fromkeys(("virtualclustertemplates", "virtualclusterinstances"), "management.loft.sh"),
    **dict.fromkeys(("clusterroles", "rolebindings"), "rbac.authorization.k8s.io"),
    **dict.fromkeys(("secrets", "pods", "namespaces"), ""),
    "httproutes": "gateway.networking.k8s.io",
}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "impersonate")


def test_users_of_our_keys_may_provision_and_not_administer(cluster: httpx2.Client, server: Server) -> None:
    """Ledger: SEC-01."""
    if server.name == "embedded":
        pytest.skip("the embedded server lets everybody do everything")
    for user in (made for made in objects_of("reference") if made["kind"] == "User"):
        name = user["metadata"]["name"]
        for role in user["spec"]["clusterRoles"]:  # as the Platform does
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": f"loft:user:{name}"}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["name"]}
            binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
            path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
            assert cluster.post(path, json=binding).is_success
        eventually(partial(_may, cluster, name, "projects", "get"))
        allowed = {(plural, verb) for plural in ASKED for verb in VERBS if _may(cluster, name, plural, verb)}
        assert MAY[name] <= allowed
        listed = {("httproutes", "list")}  # in our own namespace: routes of endpoints that are gone are found there
        assert not {verb for _, verb in allowed - listed} & {"impersonate", "list", "update", "watch"}
        assert not {plural for plural, _ in allowed} & {"users", "teams", "ownedaccesskeys", "clusterroles", "secrets"}
        assert not {("nodeproviders", "delete"), ("virtualclustertemplates", "delete")} & allowed
        assert (("projects", "delete") in allowed) is (name == "tenantry-bootstrap")
        assert not _may(cluster, name, "httproutes", "create", namespace="default")


def _may(http: httpx2.Client, user: str, plural: str, verb: str, *, namespace: str = "tenantry") -> bool:
    attributes = {"group": ASKED[plural], "resource": plural, "verb": verb, "namespace": namespace}
    spec = {"user": user, "groups": [f"loft:user:{user}"], "resourceAttributes": attributes}
    answer = http.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json={"spec": spec})
    return bool(answer.json()["status"]["allowed"])


def _is_admitted(http: httpx2.Client, pod: Object) -> bool:
    """Whether the pod may be; not before the server has found the parameters of the policies."""
    answer = _create(http, pod)
    assert answer.status_code == 201 or "failed to configure binding" in answer.text, answer.text
    return answer.status_code == 201


def _create(http: httpx2.Client, pod: Object) -> httpx2.Response:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    return http.post(path, json=pod, params={"dryRun": "All"})


def _pod(template: Object, *, namespace: str) -> Object:
    metadata = {**template["metadata"], "name": "pod", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _apply(http: httpx2.Client, made: Object) -> httpx2.Response:
    query = {"fieldManager": "tests", "fieldValidation": "Strict", "force": "true"}
    return http.patch(_path(made), json=made, headers=APPLY, params=query)


def _path(made: Object) -> str:
    """Where an object stands."""
    version, metadata = made["apiVersion"], made["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{place}/{_plurals()[version, made['kind']]}/{metadata['name']}"


@cache
def _plurals() -> Mapping[tuple[str, str], str]:
    """The plural of every kind that the embedded server serves, by apiVersion and kind."""
    kinds = load_builtins().kinds
    return {("/".join(filter(None, (kind.group, kind.version))), kind.kind): kind.plural for kind in kinds}


def _is_served(http: httpx2.Client, crd: Object) -> bool:
    spec = crd["spec"]
    return http.get(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}").is_success
