"""The admission policies in a real API server: it decides every sample as the offline evaluation does.

Every policy is bound twice: first so that it only warns, which shows what each policy says to each sample, then as
tenant clusters bind it. The embedded server evaluates no policies, so these tests need a real one.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2
import pytest
import yaml
from jinja2 import Environment, FileSystemLoader

from provisioner.admission.policy_match import Subject
from provisioner.catalog.pack import pack_root
from tests.conformance import servers
from tests.contract import schemas
from tests.contract.policy_samples import ROOT, SETTINGS, WORLD, Sample, denials, policies, samples

_DEADLINE_SECONDS = 60
_NAMED = re.compile(r"ValidatingAdmissionPolicy '([a-z-]+)\.tenantry\.io'")
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WITHOUT_PUBLIC_SCHEMA = (
    ("cilium.io", "v2", "CiliumNetworkPolicy"),
    ("crd.projectcalico.org", "v1", "NetworkPolicy"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
)
_MERGE = {"Content-Type": "application/merge-patch+json"}


class Cluster:
    """A real API server with the world of the samples in it."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def put_there(self, value: Mapping[str, Any]) -> None:
        """Create an object, or leave the one that stands there."""
        answer = self.http.post(_path(value), json=value)
        assert answer.status_code in (201, 409), answer.text
        if value["kind"] == "ResourceQuota":
            # What the quota controller would write: without it the server admits nothing.
            hard = value["spec"]["hard"]
            body = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
            path = f"{_path(value)}/{value['metadata']['name']}/status"
            assert self.http.patch(path, json=body, headers=_MERGE).is_success

    def ask(self, sample: Sample) -> httpx2.Response:
        """The answer to a sample, nothing being kept."""
        dry = {"dryRun": "All"}
        if sample.verb == "create":
            return self.http.post(_path(sample.obj), json=sample.obj, params=dry)
        path = f"{_path(sample.obj)}/{sample.obj['metadata']['name']}"
        if sample.verb == "delete":
            return self.http.delete(path, params=dry)
        path += "/ephemeralcontainers" if sample.verb == "ephemeralcontainers" else ""
        return self.http.patch(path, json=_merge_patch(sample.old, sample.obj), headers=_MERGE, params=dry)

    def bind(self, actions: list[str]) -> None:
        """Bind every policy with these actions."""
        headers = {"Content-Type": "application/apply-patch+yaml"}
        for policy in policies():
            for value in (yaml.safe_load((ROOT / policy.name / "policy.yaml").read_text()), _binding(policy.name)):
                if value["kind"].endswith("Binding"):
                    value["spec"]["validationActions"] = actions
                path = f"{_path(value)}/{value['metadata']['name']}"
                answer = self.http.patch(path, json=value, headers=headers, params={"fieldManager": "tests"})
                assert answer.status_code in (200, 201), answer.text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server; skips without one."""
    schemas.schemas_folder()
    with servers.kube_apiserver(tmp_path_factory.mktemp("policies")) as server, server.client() as http:
        cluster = Cluster(http)
        for crd in _crds():
            cluster.put_there(crd)
        for crd in _crds():
            _await(functools.partial(_is_served, http, crd))
        for value in _world():
            cluster.put_there(value)
        yield cluster


def test_a_real_api_server_decides_every_sample_as_we_do(cluster: Cluster) -> None:
    """Ledger: TEN-12, SEC-06, GPU-01, GPU-02."""
    everybody = {policy.name for policy in policies()}
    cluster.bind(["Warn"])
    _await(lambda: everybody == set().union(*(_told(cluster.ask(sample)) for sample in samples())))
    differing, agreed = [], 0
    for sample in samples():
        answer = cluster.ask(sample)
        told, ours = _told(answer), _ours(sample)
        if _is_refused_first(answer):
            assert sample.path.parent.name == "denied", answer.text
        elif answer.is_success:
            differing += [f"{sample.name}: {name}" for name in ours ^ told]
            agreed += len(everybody - (ours ^ told))
        else:
            # Only a missing parameter refuses here, and the server stops at the first.
            differing += [f"{sample.name}: {name}" for name in told - ours]
            agreed += len(told & ours)
    print(f"agreed: {agreed} of {agreed + len(differing)}")
    assert not differing


def test_a_real_api_server_refuses_what_we_refuse(cluster: Cluster) -> None:
    """Ledger: TEN-12, SEC-06, GPU-01, GPU-02."""
    cluster.bind(["Deny", "Audit"])
    refused = [sample for sample in samples() if _ours(sample)]
    _await(lambda: not any(cluster.ask(sample).is_success for sample in refused))
    for sample in samples():
        answer = cluster.ask(sample)
        ours, told = _ours(sample), _told(answer)
        assert answer.is_success is not bool(ours), f"{sample.name}: {answer.text}"
        assert told <= ours, f"{sample.name}: {answer.text}"
        assert answer.is_success or told or _is_refused_first(answer), f"{sample.name}: {answer.text}"


def test_a_namespace_that_ends_takes_its_guards_along(cluster: Cluster) -> None:
    cluster.bind(["Deny", "Audit"])
    sample = next(s for s in samples() if s.name == "network-default-deny/denied/removed.delete.yaml")
    _await(lambda: cluster.ask(sample).status_code == 403)
    assert cluster.http.delete(f"/api/v1/namespaces/{sample.obj['metadata']['namespace']}").is_success
    _await(lambda: cluster.ask(sample).is_success)


def _ours(sample: Sample) -> set[str]:
    """The policies that refuse a sample, as we see it."""
    return {policy.name for policy in policies() if denials(policy, sample)}


def _is_refused_first(answer: httpx2.Response) -> bool:
    """Whether the server's own validation refused it, which comes before any policy."""
    return answer.status_code == 422 and not _told(answer)


def _told(answer: httpx2.Response) -> set[str]:
    """The policies that an answer names, as warnings or as the reason of a refusal."""
    texts = [*answer.headers.get_list("warning"), "" if answer.is_success else answer.json().get("message", "")]
    return {name for text in texts for name in _NAMED.findall(text)}


def _world() -> Iterator[Mapping[str, Any]]:
    standing = [sample.old or sample.obj for sample in samples() if sample.verb != "create"]
    spaces = {value["metadata"].get("namespace") for value in (*WORLD, *(s.obj for s in samples()))}
    for name in sorted(filter(None, spaces | {"tenantry-policy", "tenantry-stack"})):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name in ("runc", "vnode", "vnode-debug"):
        yield {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}
    yield from (SETTINGS, *WORLD, *standing)


def _crds() -> Iterator[dict[str, Any]]:
    for path in sorted(schemas.schemas_folder().glob(schemas.CRDS["gateway.networking.k8s.io"])):
        for value in yaml.safe_load_all(path.read_text()):
            if value and value["kind"] == "CustomResourceDefinition":
                yield {**value, "status": None}
    for group, version, kind in _WITHOUT_PUBLIC_SCHEMA:
        plural = Subject.of({"apiVersion": f"{group}/{version}", "kind": kind}, "CREATE").resource
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": _FREE}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }


def _is_served(http: httpx2.Client, crd: Mapping[str, Any]) -> bool:
    group, names = crd["spec"]["group"], crd["spec"]["names"]
    version = next(version["name"] for version in crd["spec"]["versions"] if version["served"])
    return http.get(f"/apis/{group}/{version}/{names['plural']}").is_success


def _binding(policy: str) -> Any:
    environment = Environment(loader=FileSystemLoader(pack_root()), trim_blocks=True, autoescape=False)
    return yaml.safe_load(environment.get_template("policies/admission/_binding.yaml.j2").render(policy=policy))


def _path(value: Mapping[str, Any]) -> str:
    subject = Subject.of(value, "CREATE")
    root = f"/apis/{value['apiVersion']}" if subject.group else f"/api/{value['apiVersion']}"
    return (
        f"{root}/namespaces/{subject.namespace}/{subject.resource}"
        if subject.namespace
        else f"{root}/{subject.resource}"
    )


def _merge_patch(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone = dict.fromkeys(old.keys() - new.keys())
    return gone | {key: _merge_patch(old.get(key), item) for key, item in new.items() if old.get(key) != item}


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the API server does not get there"
        time.sleep(0.2)
