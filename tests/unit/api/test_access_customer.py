"""What a customer sees of the installation: the endpoints that were bought, and nothing of what stands behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from provisioner.api.customer import customer_view
from provisioner.api.services import Services
from provisioner.api.views import listed_view
from provisioner.domain.access import AccessRole, Scope
from provisioner.domain.conditions import Stage, StageName, StageState
from provisioner.domain.endpoint import Endpoint, Phase
from tests.store.examples import SteppedClock, endpoint
from tests.unit.api.application import application
from tests.unit.api.callers import CUSTOMERS_ROUTES, before_the_end, caller, every_route, secret_of
from tests.unit.api.conftest import REQUEST, Wakes, claim, end, idempotent

TOLD = {"id", "name", "phase", "stage", "reason", "message", "url", "model", "usage", "errors", "createdAt"}
"""Status, URL, usage, errors and stage, and what names the endpoint."""
WRITES = (Scope.ENDPOINTS_READ, Scope.ENDPOINTS_WRITE)


@pytest.fixture
async def made(operator: httpx2.AsyncClient, research: str, services: Services, clock: SteppedClock) -> dict[str, Any]:
    """What creating endpoint `chat` of team research answered, with trouble in it that names what stands behind."""
    answer = await operator.post("/v1/endpoints", json=REQUEST | {"team": research}, headers=idempotent("e"))
    created: dict[str, Any] = answer.json()
    operation = await claim(services, clock)
    (stored,) = await services.store.endpoints.list()
    trouble = "virtualcluster acme-dedicated/gpu-node-7 of template tenantry-dedicated: no node of type local.gpu"
    stages = tuple(
        replace(stage, state=StageState.ERROR, reason="NodeClaimFailed", message=trouble)
        if stage.name is StageName.CAPACITY
        else replace(stage, state=StageState.DONE)
        if stage.name in (StageName.PROJECT, StageName.DELIVERY)
        else stage
        for stage in stored.stages
    )
    assert operation.lease is not None
    fence = operation.lease.fence
    await services.store.endpoints.save(replace(stored, stages=stages), operation=operation.id, fence=fence)
    await end(operation, services, clock)
    return created


@pytest.fixture
async def customer(services: Services, transport: httpx2.ASGITransport, acme: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A customer of tenant acme."""
    async with await caller(services, transport, "customer", AccessRole.CUSTOMER) as client:
        yield client


@pytest.fixture
async def self_serving(services: Services, acme: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A customer of an installation where customers make endpoints, with a key that may."""
    transport = httpx2.ASGITransport(application(replace(services, customers_create=True)))
    async with await caller(services, transport, "self", AccessRole.CUSTOMER, scopes=WRITES) as client:
        yield client


def inner_names(made: dict[str, Any], stored: Endpoint, services: Services) -> set[str]:
    """Every name that the installation has for what stands behind the endpoint."""
    plan = stored.plan
    texts = {
        *listed_view(stored).identifiers.model_dump().values(),
        *(plan.placement.project, plan.placement.template, plan.placement.control_plane, plan.capacity.node_type),
        *(plan.runtime.image, plan.runtime.source, plan.runtime.runtime, plan.runtime.model, plan.runtime.served_model),
        *(plan.address.tenant_domain, plan.tier, plan.region, plan.workload, made["id"]),
        *services.catalog.tiers,
        *services.catalog.runtimes,
        *services.catalog.models,
        *services.site.regions,
        *(region.control_plane for region in services.site.regions.values()),
        *(provider.name for provider in services.site.providers),
        *("node", "cluster", "project", "template", "argo", "namespace", "virtualcluster", "kubernetes"),
    }
    # The endpoint's id is the customer's name for it, and the tenant cluster's.
    return {text for text in texts if len(text) > 2} - {stored.id, stored.name, "1.0.0"}


def names_in(text: str, names: set[str]) -> set[str]:
    return {name for name in names if name.lower() in text.lower()}


async def test_a_customer_sees_status_url_usage_errors_and_stage(
    customer: httpx2.AsyncClient, made: dict[str, Any]
) -> None:
    """Ledger: CLI-07, TEN-01."""
    (listed,) = (await customer.get("/v1/endpoints")).json()["items"]
    assert set(listed) == TOLD
    assert listed == (await customer.get("/v1/endpoints/acme/chat")).json()
    assert (listed["phase"], listed["stage"], listed["reason"]) == ("Creating", "preparing", "PreparationDelayed")
    assert (listed["url"], listed["model"]) == ("https://chat.acme.example.com/v1", "chat")
    assert listed["usage"] == f"/v1/usage?endpoint={listed['id']}"
    assert [error["reason"] for error in listed["errors"]] == ["PreparationDelayed"]


async def test_no_route_tells_a_customer_what_stands_behind(
    customer: httpx2.AsyncClient, made: dict[str, Any], services: Services
) -> None:
    """Ledger: TEN-01, TEN-12."""
    (stored,) = await services.store.endpoints.list()
    names = inner_names(made, stored, services)
    assert {"acme-dedicated", stored.plan.capacity.node_type, "tiny", made["id"]} <= names
    unknown = await customer.get("/v1/nothing")
    ids = {"reference": stored.id, "operation": made["id"], "key": "key-customer", "name": "dedicated"}
    asking = before_the_end(customer, services)
    for route in every_route(services):
        path = route.filled(ids | {"model": "tiny", "tenant": "acme"})
        answer = await asking.request(route.method, path, headers=idempotent("a"), json=REQUEST)
        assert not names_in(answer.text + str(answer.headers), names), (route, answer.text)
        if (route.method, route.path) not in CUSTOMERS_ROUTES:
            assert answer.status_code == 404, route
            assert {**answer.json(), "requestId": ""} == {**unknown.json(), "requestId": ""}
    assert (await customer.get("/internal/snapshots")).status_code == 401


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("state", [StageState.PENDING, StageState.ERROR])
def test_every_stage_is_told_in_the_customers_words(number: int, state: StageState) -> None:
    """Ledger: CLI-07."""
    inner = "acme-dedicated gpu-node-7 argocd"
    stages = tuple(
        Stage(name=name, state=StageState.DONE if position < number else state, reason=inner, message=inner)
        for position, name in enumerate(StageName)
    )
    view = customer_view(replace(endpoint(), stages=stages))
    assert view.stage in ("preparing", "capacity", "connecting", "loading", "checking")
    assert view.reason and view.message
    assert bool(view.errors) is (state is StageState.ERROR)
    assert not names_in(view.model_dump_json(exclude={"url"}), {*inner.split(), "cluster", "dedicated", "node"})


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("reason", ["QuotaExceeded", "TemplateNotFound", "DeadlineExceeded", ""])
def test_a_failure_is_told_without_its_message(phase: Phase, reason: str) -> None:
    view = customer_view(replace(endpoint(), phase=phase, reason=reason, message="acme-dedicated has no template"))
    assert bool(view.errors) is (phase is Phase.FAILED)
    assert (view.stage is None) is (phase is not Phase.CREATING)
    assert not names_in(view.model_dump_json(exclude={"url"}), {"acme-dedicated", "template"})


async def test_what_the_model_server_does_is_told(services: Services) -> None:
    done = tuple(Stage(name=name, state=StageState.DONE) for name in list(StageName)[:7])
    for reason, told in (("DownloadingModel", "DownloadingModel"), ("WaitingForPods", "LoadingModel")):
        loading = (Stage(name=StageName.LOADING, reason=reason), Stage(name=StageName.PUBLISHED))
        assert customer_view(replace(endpoint(), stages=done + loading)).reason == told


async def test_five_things_that_a_customer_may_not_see_are_not_there(
    customer: httpx2.AsyncClient, operator: httpx2.AsyncClient, made: dict[str, Any], services: Services
) -> None:
    """Platform internals, other tenants, templates, kinds of GPUs and resources of hosts. Ledger: TEN-12."""
    body = {"name": "other", "tiers": ["dedicated"]}
    await operator.post("/v1/tenants", json=body, headers=idempotent("t"))
    for path in (
        f"/v1/operations/{made['id']}",
        "/v1/endpoints/other/chat",
        "/v1/tiers/dedicated",
        "/v1/models/prefill?model=tiny",
        "/v1/fleet",
    ):
        answer = await customer.get(path)
        assert answer.status_code == 404, path
        assert not names_in(answer.text, {"dedicated", "tiny", "local.gpu", made["id"]})
    known, none = [await customer.get(f"/v1/endpoints?tenant={name}") for name in ("other", "nobody")]
    assert known.status_code == none.status_code == 404
    assert known.json()["detail"].replace("other", "nobody") == none.json()["detail"]


@pytest.mark.parametrize("verb", ["shell", "exec"])
async def test_an_endpoint_has_no_shell_for_anybody_and_the_refusal_says_what_has(
    verb: str, customer: httpx2.AsyncClient, operator: httpx2.AsyncClient, made: dict[str, Any]
) -> None:
    """Ledger: LIF-15. Whoever does not reach the endpoint is told what he is told of any other."""
    for client in (customer, operator):
        answer = await client.post(f"/v1/endpoints/acme/chat:{verb}")
        assert (answer.status_code, answer.json()["reason"]) == (403, "ApiOnly")
        assert "a machine of one's own, which is another product" in answer.json()["hint"]
        assert (await client.post(f"/v1/endpoints/acme/none:{verb}")).status_code == 404
    assert (await customer.post(f"/v1/endpoints/other/chat:{verb}")).status_code == 404


async def test_a_team_sees_its_own_endpoints_where_teams_are_told_apart(
    services: Services, transport: httpx2.ASGITransport, made: dict[str, Any]
) -> None:
    """Ledger: TEN-16."""
    together = httpx2.ASGITransport(application(replace(services, team_scoping=False)))
    for team, status in (("research", 200), ("sales", 404), (None, 200)):
        async with await caller(services, transport, f"of-{team}", AccessRole.CUSTOMER, team=team) as client:
            answer = await client.get("/v1/endpoints/acme/chat")
            assert answer.status_code == status
            assert len((await client.get("/v1/endpoints")).json()["items"]) == (status == 200)
            if status == 404:
                unknown = await client.get("/v1/endpoints/acme/nothing")
                assert answer.json()["detail"] == unknown.json()["detail"].replace("nothing", "chat")
        headers = {"Authorization": f"Bearer {secret_of(f'of-{team}')}"}
        async with httpx2.AsyncClient(transport=together, base_url="http://api.example.com", headers=headers) as client:
            assert (await client.get("/v1/endpoints/acme/chat")).status_code == 200


async def test_a_key_for_some_endpoints_sees_no_others(
    services: Services, transport: httpx2.ASGITransport, made: dict[str, Any]
) -> None:
    endpoints = ("ep-another",)
    async with await caller(services, transport, "few", AccessRole.CUSTOMER, endpoints=endpoints) as client:
        assert (await client.get("/v1/endpoints")).json()["items"] == []
        assert (await client.get(f"/v1/endpoints/{made['subject']}")).status_code == 404


async def test_a_key_for_calls_alone_looks_at_nothing(
    services: Services, transport: httpx2.ASGITransport, made: dict[str, Any]
) -> None:
    scopes = (Scope.INFERENCE,)
    async with await caller(services, transport, "calls", AccessRole.CUSTOMER, scopes=scopes) as client:
        answer = await client.get("/v1/endpoints")
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
        assert "endpoints" not in answer.json()["detail"]


async def test_customers_make_nothing_while_that_is_off_and_operators_do(
    customer: httpx2.AsyncClient, operator: httpx2.AsyncClient, services: Services, transport: httpx2.ASGITransport,
    acme: str,
) -> None:  # fmt: skip
    """Ledger: LIF-13."""
    async with await caller(services, transport, "writer", AccessRole.CUSTOMER, scopes=WRITES) as writer:
        for client in (customer, writer):
            for method, path in (("POST", "/v1/endpoints"), ("DELETE", "/v1/endpoints/acme/chat")):
                answer = await client.request(method, path, json=REQUEST, headers=idempotent("c"))
                assert (answer.status_code, answer.json()["reason"]) == (403, "CustomerCreateOff")
    assert await services.store.endpoints.list() == []
    assert (await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("o"))).status_code == 202


async def test_customers_make_and_delete_their_own_where_that_is_on(
    self_serving: httpx2.AsyncClient, services: Services, wakes: Wakes
) -> None:
    """Ledger: LIF-13."""
    made = await self_serving.post("/v1/endpoints", json=REQUEST, headers=idempotent("c"))
    assert (made.status_code, set(made.json())) == (202, TOLD)
    assert made.headers["Location"] == f"/v1/endpoints/{made.json()['id']}"
    assert (await self_serving.get(made.headers["Location"])).json() == made.json()
    again = await self_serving.post("/v1/endpoints", json=REQUEST, headers=idempotent("c"))
    assert again.json() == made.json()
    (operation,) = [one for one in await services.store.operations.list() if one.verb == "endpoint.create"]
    assert operation.actor == "customer:self"
    foreign = await self_serving.post("/v1/endpoints", json=REQUEST | {"tenant": "other"}, headers=idempotent("f"))
    assert (foreign.status_code, foreign.json()["reason"]) == (404, "TenantUnknown")
    deleted = await self_serving.delete("/v1/endpoints/acme/chat", headers=idempotent("d"))
    assert (deleted.status_code, set(deleted.json()), deleted.json()["phase"]) == (202, TOLD, "Deleting")


async def test_a_customer_without_the_scope_makes_nothing_where_that_is_on(services: Services, acme: str) -> None:
    transport = httpx2.ASGITransport(application(replace(services, customers_create=True)))
    async with await caller(services, transport, "reader", AccessRole.CUSTOMER) as client:
        answer = await client.post("/v1/endpoints", json=REQUEST, headers=idempotent("c"))
        assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"tier": "shared"}, {"NotOffered"}),  # there, but not for this tenant
        ({"tier": "gold"}, {"NotOffered"}),  # not there at all
        ({"model": "big"}, {"NotOffered"}),
        ({"model": "biggg"}, {"NotOffered"}),
        ({"region": "mars"}, {"NotOffered"}),
        ({"nodeType": "local.gpu"}, {"UnknownField"}),
        ({"scaling": {"minReplicas": 3, "maxReplicas": 2}}, {"MinAboveMax"}),
        ({"name": "UPPER"}, {"InvalidValue"}),
    ],
)
async def test_a_refusal_tells_a_customer_nothing_of_what_there_is(
    self_serving: httpx2.AsyncClient, services: Services, changes: dict[str, Any], reasons: set[str]
) -> None:
    """Ledger: TEN-12."""
    answer = await self_serving.post("/v1/endpoints", json=REQUEST | changes, headers=idempotent("c"))
    assert answer.status_code == 422, answer.text
    assert {finding["reason"] for finding in answer.json()["findings"]} == reasons
    hidden = {"dedicated", "tiny", "speech", "local", "gpu", "pool", "node type"} - {str(v) for v in changes.values()}
    assert not names_in(answer.text.replace("local.gpu", ""), hidden), answer.text


async def test_a_team_makes_endpoints_for_itself(services: Services, research: str) -> None:
    transport = httpx2.ASGITransport(application(replace(services, customers_create=True)))
    asked = {"team": "research", "scopes": WRITES}
    async with await caller(services, transport, "team", AccessRole.CUSTOMER, **asked) as client:
        for body, status in ((REQUEST, 422), (REQUEST | {"team": "sales"}, 422), (REQUEST | {"team": "research"}, 202)):
            answer = await client.post("/v1/endpoints", json=body, headers=idempotent(str(body.get("team"))))
            assert answer.status_code == status, answer.text
