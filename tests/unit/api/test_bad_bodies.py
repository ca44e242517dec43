"""Bodies that are not as they should be, at every route of the OpenAPI document that takes one: new routes too."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx2
import pytest

from provisioner.api import body as read_bodies
from provisioner.api.body import MAX_BODY_BYTES, MAX_COMMAS
from provisioner.api.services import Services
from provisioner.catalog.written import document_of
from provisioner.domain.ids import RandomIds
from provisioner.store.interface import Store
from tests.store.examples import SteppedClock
from tests.unit.api.application import application
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, idempotent
from tests.unit.catalog.packs import small_catalog, small_site

JSON = "application/json"
BAD: dict[str, tuple[str, bytes, set[int]]] = {
    "too many bytes": (JSON, b'{"name": "' + b"a" * MAX_BODY_BYTES + b'"}', {413}),
    "a form": ("application/x-www-form-urlencoded", b"name=chat", {415}),
    "a picture": ("image/png", b"\x89PNG", {415}),
    "no UTF-8": (JSON, b'{"name": "\xff\xfe"}', {400}),
    "half a surrogate pair": (JSON, b'{"name": "\\ud800"}', {422}),
    "no JSON": (JSON, b"{name: chat}", {400}),
    "nothing but a list": (JSON, b"[]", {422}),
    "depth without end": (JSON, b"[" * 100_000, {400}),
    "a value that is deep": (JSON, b'{"name": ' + b'{"a":' * 600 + b"1" + b"}" * 601, {400}),
    "a deep value": (JSON, b'{"name": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, {400, 422}),
    "a number of 5,000 digits": (JSON, b'{"name": ' + b"9" * 5_000 + b"}", {400}),
    "a number beyond every float": (JSON, b'{"name": 1e999}', {400, 422}),
    "no number": (JSON, b'{"name": NaN}', {400}),
    "a name that stands twice": (JSON, b'{"name": "a", "name": "b"}', {400}),
    "values without end": (JSON, b'{"name": [' + b"0," * MAX_COMMAS + b"0, 0]}", {413}),
    "fields without end": (JSON, b"{" + b",".join(b'"f%d":0' % n for n in range(3_000)) + b"}", {422}),
    "a name that stands twice at the end": (
        JSON,
        b'{%s,"z":0,"z":0}' % b",".join(b'"f%d":0' % n for n in range(3_000)),
        {400},
    ),
    "a field that nobody knows": (JSON, b'{"nobodyKnows": 1}', {422}),
}


class NoStore:
    """A store that nobody asks: the document depends on code alone."""

    def __getattr__(self, name: str) -> None:
        """One of its parts."""


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of every route whose body is JSON."""
    services = Services(
        store=cast(Store, NoStore()),
        catalog=small_catalog(),
        site=small_site(),
        clock=SteppedClock(),
        ids=RandomIds(),
        gateway_key_digest="",
    )
    for path, methods in application(services).openapi()["paths"].items():
        for method, route in methods.items():
            if JSON in route.get("requestBody", {}).get("content", {}):
                yield method.upper(), path


ROUTES = tuple(routes())


@pytest.fixture
async def names(
    operator: httpx2.AsyncClient, acme: str, research: str, services: Services, clock: SteppedClock
) -> dict[str, str]:
    """What there is, by the path parameters that ask for it."""
    models = [document_of(model) for model in small_catalog().models.values()]
    await services.store.models.bring_in(models, clock.now())
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("endpoint"))
    assert made.status_code == 202, made.text
    return {"reference": made.json()["subject"], "tenant": acme, "name": research, "model": "tiny"}


def filled(path: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "x"), path)


def test_there_are_routes_to_prove_it_of() -> None:
    assert {("POST", "/v1/endpoints"), ("POST", "/v1/keys"), ("PUT", "/v1/model-masters/{model}")} <= set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{method} {path}" for method, path in ROUTES])
async def test_a_bad_body_is_refused_with_a_problem_and_changes_nothing(
    method: str, path: str, operator: httpx2.AsyncClient, names: dict[str, str], services: Services
) -> None:
    before = await _stored(services)
    for what, (content_type, body, statuses) in BAD.items():
        headers = {"Content-Type": content_type, "If-Match": "*", **idempotent(what.replace(" ", "-"))}
        answer = await operator.request(method, filled(path, names), content=body, headers=headers)
        problem: dict[str, Any] = answer.json()
        assert answer.status_code in statuses, (what, answer.text)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert problem["reason"], what
        assert "Traceback" not in answer.text
        assert OPERATOR_KEY not in answer.text
        if what == "a field that nobody knows":
            assert "nobodyKnows" in {finding["field"] for finding in problem["findings"]}, answer.text
    assert await _stored(services) == before


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(
    operator: httpx2.AsyncClient, names: dict[str, str]
) -> None:
    taken: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        taken.append(b"{}")
        yield b"{}"

    headers = {"Content-Type": JSON, "Content-Length": str(MAX_BODY_BYTES + 1), **idempotent("large")}
    answer = await operator.post("/v1/endpoints", content=body(), headers=headers)
    assert (answer.status_code, answer.json()["reason"], taken) == (413, "BodyTooLarge", [])


async def test_findings_without_end_are_told_up_to_a_number_and_counted(operator: httpx2.AsyncClient) -> None:
    unknown = {f"unknown{number}": 1 for number in range(300)}
    for wanted, most, left in ((REQUEST | unknown, 100, 200), (REQUEST | {"serving": unknown}, 200, 101)):
        answer = await operator.post("/v1/plan", json=wanted)  # the tenant is unknown too
        found = answer.json()["findings"]
        (more,) = [finding for finding in found if finding["reason"] == "MoreFindings"]
        assert (answer.status_code, found.index(more)) == (422, most)
        assert more["message"].endswith(f"more places: {left}")


async def test_a_compressed_body_is_refused_and_says_so(operator: httpx2.AsyncClient, names: dict[str, str]) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip", **idempotent("gzip")}
    answer = await operator.post("/v1/endpoints", content=gzip.compress(b"{}"), headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (415, "UnsupportedMediaType")
    assert "Content-Encoding is `gzip`" in answer.json()["detail"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    operator: httpx2.AsyncClient, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    monkeypatch.setattr(read_bodies, "BODY_SECONDS", 0.01)
    headers = {"Content-Type": JSON, **idempotent("slow")}
    answer = await operator.post("/v1/endpoints", content=body(), headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (408, "BodyTooSlow")


async def _stored(services: Services) -> tuple[Any, ...]:
    """What a body could have changed."""
    store = services.store
    return (
        await store.endpoints.list(),
        await store.tenants.browse(),
        (await store.keys.page()).rows,
        (await store.operations.page()).rows,
        (await store.models.page()).rows,
    )
