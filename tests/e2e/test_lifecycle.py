"""The whole life of an endpoint over REST, on real processes with a real model, and nothing is left of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import httpx2
import pytest

from provisioner.cli.leftovers import find_leftovers, find_processes
from tests.e2e.conftest import Installation

pytestmark = pytest.mark.timeout(400)

REQUEST = {
    "name": "life",
    "tenant": "acme",
    "model": "gemma-3-270m",
    "region": "local",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 1},
    "serving": {"maxModelLen": 512},
}
WAIT_SECONDS = 30


class Api:
    """The REST API as product automation calls it."""

    def __init__(self, installation: Installation, name: str = "life") -> None:
        self._name = name
        settings = installation.laptop.settings
        self._headers = {"Authorization": f"Bearer {settings.operator_key_file.read_text().strip()}"}
        self._url = f"{settings.url}/v1"
        self._numbers = itertools.count(1)

    def get(self, path: str) -> Any:
        """What is there."""
        answer = httpx2.get(f"{self._url}{path}", headers=self._headers, timeout=60, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What is answered to a change."""
        headers = self._headers | {"Idempotency-Key": f"{self._name}-{next(self._numbers)}"}
        answer = httpx2.request(method, f"{self._url}{path}", json=body, headers=headers, timeout=60, trust_env=False)
        assert answer.status_code in (201, 202), answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: Any = None) -> str:
        """The reason for which a change is refused."""
        headers = self._headers | {"Idempotency-Key": f"{self._name}-{next(self._numbers)}"}
        answer = httpx2.request(method, f"{self._url}{path}", json=body, headers=headers, timeout=60, trust_env=False)
        assert answer.status_code in (409, 422), answer.text
        return str(answer.json()["reason"])

    def finish(self, operation: dict[str, Any]) -> dict[str, Any]:
        """The operation when it has succeeded."""
        while not operation["done"]:
            seen = operation["updatedAt"].replace("+", "%2B")
            operation = self.get(f"/operations/{operation['id']}?wait={WAIT_SECONDS}&seen={seen}")
        assert operation["state"] == "succeeded", operation
        return operation

    def do(self, verb: str, body: Any = None) -> dict[str, Any]:
        """Have a verb of the endpoint carried out."""
        return self.finish(self.ask("POST", f"/endpoints/acme/life:{verb}", body))


def call(url: str, secret: str, model: str = "life") -> httpx2.Response:
    """One call of a customer."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)


def until(url: str, secret: str, status: int, model: str = "life") -> httpx2.Response:
    """A customer's calls until one has this status: gateways learn of keys and routes within a second or two."""
    for _ in range(600):
        answer = call(url, secret, model)
        if answer.status_code == status:
            return answer
    raise AssertionError(f"not {status} but {answer.status_code}: {answer.text}")


def test_every_verb_through_the_api_and_nothing_is_left(installation: Installation) -> None:
    """Ledger: LIF-05, LIF-10"""
    api = Api(installation)
    api.finish(api.ask("POST", "/tenants", {"name": "acme", "tiers": ["dedicated"]}))
    api.finish(api.ask("POST", "/endpoints", REQUEST))
    endpoint = api.get("/endpoints/acme/life")
    url, id_ = endpoint["url"], endpoint["id"]
    old = api.ask("POST", "/keys", {"tenant": "acme", "name": "ci", "endpoints": ["life"]})["secret"]
    until(url, old, 200)

    api.do("warm")
    api.do("scale", {"minReplicas": 2, "maxReplicas": 2})
    assert api.get("/endpoints/acme/life")["scaling"] == {"minReplicas": 2, "maxReplicas": 2}
    api.do("restart")
    api.do("scale", {"minReplicas": 1, "maxReplicas": 1})
    api.do("update", {"serving": {"maxModelLen": 1024}})
    assert api.get("/endpoints/acme/life")["identifiers"]["revision"] != endpoint["identifiers"]["revision"]
    until(url, old, 200)

    rotated = api.ask("POST", "/endpoints/acme/life:rotate-key", {"overlapSeconds": 3})
    new = rotated["secret"]
    until(url, new, 200)
    api.finish(rotated)
    until(url, old, 401)
    assert call(url, new).status_code == 200

    api.do("drain", {"deadlineSeconds": 30})
    assert api.get("/endpoints/acme/life")["phase"] == "Drained"
    assert until(url, new, 503).headers["Retry-After"]
    api.do("warm")
    until(url, new, 200)

    deleted = api.finish(api.ask("DELETE", "/endpoints/acme/life"))
    assert api.ask("POST", f"/endpoints/{id_}:reclaim")["id"] == deleted["id"]
    assert asyncio.run(find_leftovers(installation.laptop.settings)) == []
    assert find_processes(installation.state) == []
    assert api.get("/orphans")["items"] == []
    assert call(url, new).status_code in (401, 404)

    api.finish(api.ask("DELETE", "/tenants/acme"))
    assert api.get("/tenants")["items"] == []
    assert [key["name"] for key in api.get("/keys")["items"] if key["tenant"]] == []


def test_tenants_share_a_pool_and_each_goes_without_the_others_noticing(installation: Installation) -> None:
    """Ledger: TEN-02, TEN-04, TEN-05, LIF-05. The shipped tier of pools: the provider makes one, two tenants have an
    alias on it, one of them goes, then the other, and the pool at last."""
    api = Api(installation, "pool")
    tenants = ("acme", "globex")
    for tenant in ("pool", *tenants):
        api.finish(api.ask("POST", "/tenants", {"name": tenant, "tiers": ["shared"]}))
    asked = {**REQUEST, "tier": "shared", "name": "chat"}
    pool = api.finish(api.ask("POST", "/endpoints", {**asked, "tenant": "pool", "name": "gemma"}))["subject"]
    assert api.refused("POST", "/endpoints", {**asked, "tenant": "acme"}) == "InvalidRequest"  # its own parameters
    del asked["serving"]
    for tenant in tenants:
        api.finish(api.ask("POST", "/endpoints", {**asked, "tenant": tenant}))
    aliases = [api.get(f"/endpoints/{tenant}/chat") for tenant in tenants]
    assert {alias["identifiers"]["tenantCluster"] for alias in aliases} == {pool}
    assert len(find_processes(installation.state)) == 1

    url = aliases[0]["url"]
    ours, theirs = [
        api.ask("POST", "/keys", {"tenant": tenant, "name": "ci", "endpoints": ["chat"]})["secret"]
        for tenant in tenants
    ]
    assert until(url, ours, 200, "chat").json()["model"] == until(url, theirs, 200, "chat").json()["model"]
    assert api.refused("POST", "/endpoints/acme/chat:scale", {"maxReplicas": 2}) == "PoolHasReplicas"
    assert api.refused("DELETE", f"/endpoints/{pool}") == "PoolInUse"

    api.finish(api.ask("DELETE", "/endpoints/acme/chat"))
    assert call(url, ours, "chat").status_code in (401, 404)
    assert call(url, theirs, "chat").status_code == 200
    assert api.get(f"/endpoints/{pool}")["phase"] == "Ready"

    api.finish(api.ask("DELETE", "/endpoints/globex/chat"))
    api.finish(api.ask("DELETE", f"/endpoints/{pool}"))
    assert asyncio.run(find_leftovers(installation.laptop.settings)) == []
    assert find_processes(installation.state) == []
