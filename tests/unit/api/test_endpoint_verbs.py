"""Endpoints over REST: warmed, restarted, drained, and given another key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import Scope
from provisioner.domain.endpoint import Phase
from provisioner.domain.ids import KeyId
from provisioner.domain.key import key_digest
from provisioner.domain.operation import Verb
from provisioner.domain.snapshot import Backend, Route, Snapshot
from tests.store.examples import SteppedClock, api_key
from tests.unit.api.conftest import Wakes, idempotent
from tests.unit.api.test_endpoints_changes import become, change, chat, row_of

__all__ = ["chat"]

PLAIN = ("warm", "restart", "drain")


async def make_key(services: Services, chat: str, name: str = "old", **changes: Any) -> str:
    """A key that is bound to the endpoint alone."""
    key = api_key(f"tnt-{name}", id=KeyId(f"key-{name}"), endpoints=(chat,), **changes)
    await services.store.keys.add(key)
    return key.id


@pytest.mark.parametrize("verb", PLAIN)
@pytest.mark.parametrize("body", [{}, None])
async def test_verb_is_an_operation_of_the_endpoint(
    operator: httpx2.AsyncClient, chat: str, services: Services, wakes: Wakes, verb: str, body: Any
) -> None:
    """Ledger: LIF-05"""
    woken = wakes.worker
    answer = await change(operator, verb, body)
    assert answer.status_code == 202, answer.text
    operation = answer.json()
    assert answer.headers["Location"] == f"/v1/operations/{operation['id']}"
    assert (operation["verb"], operation["state"], operation["subject"]) == (f"endpoint.{verb}", "pending", chat)
    row = await row_of(chat, services)
    assert (row.phase, row.operation) == (Phase.READY, operation["id"])
    assert wakes.worker == woken + 1


@pytest.mark.parametrize("verb", PLAIN)
async def test_verb_that_goes_on_is_answered_again(operator: httpx2.AsyncClient, chat: str, verb: str) -> None:
    first = (await change(operator, verb, {}, key="first")).json()
    again = await change(operator, verb, {}, key="again")
    assert (again.status_code, again.json()["id"]) == (202, first["id"])


async def test_same_verb_with_other_choices_is_refused_with_the_id_of_the_one_that_goes_on(
    operator: httpx2.AsyncClient, chat: str
) -> None:
    first = (await change(operator, "drain", {"deadlineSeconds": 60}, key="first")).json()
    same = await change(operator, "drain", {"deadlineSeconds": 60}, key="same")
    assert (same.status_code, same.json()["id"]) == (202, first["id"])
    refused = await change(operator, "drain", {"deadlineSeconds": 5}, key="other")
    assert (refused.status_code, refused.json()["reason"]) == (409, "OperationInProgress")
    assert first["id"] in refused.json()["detail"]


async def test_another_verb_is_refused_with_the_id_of_the_one_that_goes_on(
    operator: httpx2.AsyncClient, chat: str
) -> None:
    first = (await change(operator, "warm", {}, key="first")).json()
    refused = await change(operator, "drain", {}, key="other")
    assert (refused.status_code, refused.json()["reason"]) == (409, "OperationInProgress")
    assert first["id"] in refused.json()["detail"]


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("warm", {"replicas": 1}, "replicas"),
        ("restart", {"force": True}, "force"),
        ("drain", {"deadlineSeconds": 121}, "deadlineSeconds"),
        ("drain", {"deadlineSeconds": -1}, "deadlineSeconds"),
        ("drain", {"deadline": 5}, "deadline"),
        ("rotate-key", {"overlapSeconds": 604801}, "overlapSeconds"),
        ("rotate-key", {"key": "key-unknown"}, "key"),
    ],
)
async def test_wrong_choice_is_named_and_changes_nothing(
    operator: httpx2.AsyncClient, chat: str, services: Services, verb: str, body: Any, field: str
) -> None:
    before = await row_of(chat, services)
    answer = await change(operator, verb, body)
    assert answer.status_code == 422
    assert [finding["field"] for finding in answer.json()["findings"]] == [field]
    assert await row_of(chat, services) == before


async def test_endpoint_that_is_not_there_is_not_found(operator: httpx2.AsyncClient, acme: str) -> None:
    for verb in (*PLAIN, "rotate-key"):
        assert (await change(operator, verb, {})).status_code == 404


@pytest.mark.parametrize("verb", [*PLAIN, "rotate-key"])
async def test_verb_made_of_an_older_state_is_refused(operator: httpx2.AsyncClient, chat: str, verb: str) -> None:
    headers = idempotent("old") | {"If-Match": '"0"'}
    answer = await operator.post(f"/v1/endpoints/{chat}:{verb}", json={}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (412, "PreconditionFailed")


@pytest.mark.parametrize(("replicas", "has_gap"), [(0, False), (1, True), (2, False)])
async def test_restart_of_one_replica_tells_of_the_gap(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock, replicas: int, has_gap: bool
) -> None:
    backends = tuple(Backend(host=f"r{number}", address="127.0.0.1:1") for number in range(replicas))
    route = Route(
        alias="chat", tenant="acme", endpoint=chat, upstream_model="m", created_at=clock.now(), backends=backends
    )
    snapshot = Snapshot(version=1, created_at=clock.now(), routes=(route,), keys=())
    await services.store.snapshots.publish(snapshot)
    assert bool((await change(operator, "restart", {})).json()["hint"]) is has_gap


async def test_drained_endpoint_is_not_restarted_but_warmed(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock
) -> None:
    answer = await change(operator, "drain", {"deadlineSeconds": 0}, key="drain")
    operation = await services.store.operations.get(answer.json()["id"])
    assert operation.request["deadlineSeconds"] == 0
    await become(chat, Phase.DRAINED, services, clock)
    refused = await change(operator, "restart", {}, key="restart")
    assert (refused.status_code, refused.json()["reason"]) == (409, "EndpointDrained")
    shown = (await operator.get(f"/v1/endpoints/{chat}")).json()
    assert (shown["phase"], shown["model"]["state"]) == ("Drained", "Drained")
    assert (await change(operator, "warm", {}, key="warm")).status_code == 202


async def test_new_key_is_shown_once_and_the_old_one_ends(
    operator: httpx2.AsyncClient, chat: str, services: Services, wakes: Wakes, clock: SteppedClock
) -> None:
    """Ledger: SEC-04"""
    old = await make_key(services, chat, scopes=(Scope.INFERENCE,), team="search")
    woken = wakes.reconciler
    answer = await change(operator, "rotate-key", {"overlapSeconds": 60})
    assert answer.status_code == 202, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    told = answer.json()
    assert told["verb"] == "endpoint.rotate-key"
    assert told["key"]["endpoints"] == [chat] and told["key"]["team"] == "search"
    until = clock.now() + timedelta(seconds=60)
    assert [key["id"] for key in told["replaced"]] == [old]
    assert (await services.store.keys.get(KeyId(old))).expires_at == until
    new = await services.store.keys.get(KeyId(told["key"]["id"]))
    assert new.digest == key_digest(told["secret"]) and new.expires_at is None
    assert wakes.reconciler > woken
    again = await change(operator, "rotate-key", {"overlapSeconds": 60})
    assert again.status_code == 202
    assert (again.json()["key"]["id"], again.json()["secret"]) == (told["key"]["id"], None)
    assert again.json()["hint"]
    assert len(await services.store.keys.list(tenant="acme")) == 2


async def test_secret_of_a_new_key_is_in_no_row(operator: httpx2.AsyncClient, chat: str, services: Services) -> None:
    secret = (await change(operator, "rotate-key", {})).json()["secret"]
    [operation] = [one for one in await services.store.operations.list() if one.verb is Verb.ENDPOINT_ROTATE_KEY]
    assert secret not in repr(operation) and secret not in repr(await services.store.keys.list())


async def test_one_key_of_several_is_replaced(operator: httpx2.AsyncClient, chat: str, services: Services) -> None:
    one = await make_key(services, chat, "one", scopes=(Scope.INFERENCE,))
    await make_key(services, chat, "two")
    refused = await change(operator, "rotate-key", {}, key="both")
    assert (refused.status_code, refused.json()["reason"]) == (422, "KeysDiffer")
    answer = await change(operator, "rotate-key", {"key": one}, key="one")
    assert [key["id"] for key in answer.json()["replaced"]] == [one]


async def test_keys_of_the_whole_tenant_are_left_alone(
    operator: httpx2.AsyncClient, chat: str, services: Services
) -> None:
    await services.store.keys.add(api_key("tnt-all", id=KeyId("key-all")))
    answer = await change(operator, "rotate-key", {})
    assert answer.json()["replaced"] == []
    assert (await services.store.keys.get(KeyId("key-all"))).expires_at is None


@pytest.mark.parametrize("verb", [*PLAIN, "rotate-key"])
async def test_a_repeated_request_is_answered_whatever_became_of_the_endpoint(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock, verb: str
) -> None:
    """Ledger: OPS-01. By now its ETag is old, and the endpoint is being deleted."""
    await make_key(services, chat)
    tag = (await operator.get("/v1/endpoints/acme/chat")).headers["ETag"]
    headers = idempotent("verb") | {"If-Match": tag}
    first = (await operator.post(f"/v1/endpoints/acme/chat:{verb}", json={}, headers=headers)).json()
    await become(chat, Phase.READY, services, clock)
    await operator.delete("/v1/endpoints/acme/chat", headers=idempotent("delete"))
    again = await operator.post(f"/v1/endpoints/acme/chat:{verb}", json={}, headers=headers)
    assert again.status_code == 202, again.text
    assert again.json().get("operation", again.json())["id"] == first.get("operation", first)["id"]
    assert again.json().get("secret") is None
