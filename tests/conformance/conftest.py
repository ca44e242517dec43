"""Fixtures of the suite: each test runs once for each server, in a namespace of its own."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import httpx2
import pytest

from tests.conformance import servers
from tests.conformance.servers import Server
from tests.engines import require_engine

OLDEST_KUBECTL = 27
"""Older ones validate by themselves what servers validate today, and print other things."""

_numbers = itertools.count(1)
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


_SERVERS = ["embedded", *(["kube-apiserver"] if servers.has_kube_apiserver() else [])]


@pytest.fixture(scope="session", params=_SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server under test."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with servers.embedded(folder) as running:
            yield running
    else:
        with servers.kube_apiserver(folder) as running:
            yield running


class Api:
    """The API of the server under test, as tests speak to it: one namespace, JSON in and out."""

    def __init__(self, http: httpx2.Client, namespace: str, server: Server) -> None:
        self.http = http
        self.namespace = namespace
        self.server = server

    def path(self, plural: str, name: str = "", subresource: str = "", *, group: str = "v1") -> str:
        """`/api/v1/namespaces/<ns>/<plural>/<name>`; `group` is `apps/v1` for other groups."""
        root = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        parts = [root, "namespaces", self.namespace, plural, name, subresource]
        return "/".join(part for part in parts if part)

    def create(self, path: str, document: dict[str, Any], **parameters: str) -> dict[str, Any]:
        """A created object."""
        answer = self.http.post(path, json=document, params=parameters)
        assert answer.status_code == 201, answer.text
        return _loads(answer)

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """What stands at a path."""
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return _loads(answer)

    def apply(
        self, path: str, document: dict[str, Any], *, manager: str = "tests", **parameters: str
    ) -> httpx2.Response:
        """The answer to a server-side apply."""
        return self.http.patch(path, json=document, headers=APPLY, params={"fieldManager": manager} | parameters)

    def applied(self, path: str, document: dict[str, Any], *, manager: str = "tests", **more: str) -> dict[str, Any]:
        """The object after a server-side apply that succeeds."""
        answer = self.apply(path, document, manager=manager, **more)
        assert answer.status_code in (200, 201), answer.text
        return _loads(answer)

    def patched(self, path: str, patch: Any, headers: dict[str, str], **parameters: str) -> dict[str, Any]:
        """The object after a patch that succeeds."""
        answer = self.http.patch(path, json=patch, headers=headers, params=parameters)
        assert answer.status_code == 200, answer.text
        return _loads(answer)


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    """The API in a fresh namespace."""
    with server.client() as http:
        namespace = f"test-{next(_numbers)}"
        made = http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
        assert made.status_code == 201, made.text
        yield Api(http, namespace, server)


@pytest.fixture
def unique() -> str:
    """A name that no other test of this run has."""
    return f"x{next(_numbers)}"


@cache
def kubectl_minor(program: str) -> int:
    """The minor version of a kubectl."""
    told = subprocess.run(
        [program, "version", "--client", "--output=json"], capture_output=True, text=True, check=True, timeout=60
    )
    return int(re.sub(r"\D", "", json.loads(told.stdout)["clientVersion"]["minor"]))


T = TypeVar("T")


def eventually(look: Callable[[], T], *, seconds: float = 60) -> T:
    """What `look` finds as soon as it finds something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not seen within seconds: {seconds}"
        time.sleep(0.05)
    return found


def find_kubectl() -> str:
    """The kubectl to test with. Skips without one."""
    found = require_engine("kubectl")
    if kubectl_minor(found) < OLDEST_KUBECTL:
        pytest.skip(f"needs kubectl: 1.{OLDEST_KUBECTL} or later, found: {found}")
    return found


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    content = {"data": data} if data else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **content}


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """A Deployment with one container that serves one port."""
    container = {"name": "web", "image": "registry.example.com/web:1", "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        }
        | spec,
    }


def widget_crd(group: str, **schema: Any) -> dict[str, Any]:
    """A CustomResourceDefinition of a kind Widget with status, scale and a printer column."""
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "replicas": {"type": "integer"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                },
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        }
        | schema,
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": spec,
                    "status": {
                        "type": "object",
                        "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}},
                    },
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [version],
        },
    }


def _loads(answer: httpx2.Response) -> dict[str, Any]:
    document: dict[str, Any] = answer.json()
    return document
