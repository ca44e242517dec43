"""What is left of endpoints over REST: listed and reclaimed."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.endpoint import Phase
from provisioner.domain.operation import Verb
from provisioner.domain.orphan import Orphan
from tests.store.examples import SteppedClock
from tests.unit.api.conftest import claim, end
from tests.unit.api.test_endpoints_changes import become, change, chat, row_of

__all__ = ["chat"]

PLACE = "control-plane/p-acme-dedicated"


@pytest.fixture
async def orphans(services: Services, acme: str, clock: SteppedClock) -> list[Orphan]:
    """What a worker found."""
    since = clock.now() - timedelta(hours=1)
    found = [
        Orphan(place=PLACE, kind="NodeClaim", name="ep-lost-0", endpoint="ep-lost", tenant="acme", since=since),
        Orphan(place="delivery", kind="Branch", name="ep-lost", endpoint="ep-lost", tenant=""),
    ]
    await services.store.orphans.replace(found)
    return found


async def test_orphans_are_listed_with_tenant_kind_name_and_age(
    operator: httpx2.AsyncClient, orphans: list[Orphan]
) -> None:
    answer = await operator.get("/v1/orphans")
    assert answer.status_code == 200
    claim_, branch = answer.json()["items"]
    assert (claim_["kind"], claim_["name"], claim_["tenant"], claim_["ageSeconds"]) == (
        "NodeClaim",
        "ep-lost-0",
        "acme",
        3600,
    )
    assert (branch["place"], branch["ageSeconds"]) == ("delivery", None)
    only = await operator.get("/v1/orphans?tenant=acme")
    assert [one["kind"] for one in only.json()["items"]] == ["NodeClaim"]


async def test_what_is_left_without_a_row_is_reclaimed(
    operator: httpx2.AsyncClient, orphans: list[Orphan], services: Services, clock: SteppedClock
) -> None:
    answer = await change(operator, "reclaim", None, reference="ep-lost")
    assert answer.status_code == 202, answer.text
    operation = answer.json()
    assert (operation["verb"], operation["subject"], operation["tenant"]) == ("endpoint.reclaim", "ep-lost", "acme")
    again = await change(operator, "reclaim", None, reference="ep-lost", key="again")
    assert again.json()["id"] == operation["id"]
    claimed = await claim(services, clock)
    assert claimed.verb is Verb.ENDPOINT_RECLAIM
    assert claimed.request["places"] == [["control-plane", "p-acme-dedicated"]]
    await services.store.orphans.forget("ep-lost")
    await end(claimed, services, clock)
    late = await change(operator, "reclaim", None, reference="ep-lost", key="late")
    assert (late.status_code, late.json()["id"], late.json()["state"]) == (202, operation["id"], "succeeded")


async def test_endpoint_in_use_is_not_reclaimed(operator: httpx2.AsyncClient, chat: str, services: Services) -> None:
    refused = await change(operator, "reclaim", {}, reference=chat)
    assert (refused.status_code, refused.json()["reason"]) == (409, "EndpointInUse")
    assert (await row_of(chat, services)).phase is Phase.READY


async def test_endpoint_that_failed_is_reclaimed_by_name(
    operator: httpx2.AsyncClient, chat: str, services: Services, clock: SteppedClock
) -> None:
    await change(operator, "warm", {}, key="warm")
    await become(chat, Phase.FAILED, services, clock)
    answer = await change(operator, "reclaim", {})
    assert (answer.status_code, answer.json()["subject"]) == (202, chat)
    assert (await row_of(chat, services)).phase is Phase.DELETING


@pytest.mark.parametrize("reference", ["ep-nobody", "acme/nobody"])
async def test_what_nobody_knows_of_is_not_found(operator: httpx2.AsyncClient, acme: str, reference: str) -> None:
    answer = await change(operator, "reclaim", {}, reference=reference)
    assert answer.status_code == 404
