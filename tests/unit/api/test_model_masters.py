"""Masters and cards over REST: added, changed, archived, imported and exported, and what admission makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.admission import admit_endpoint, preview_id
from provisioner.api import present
from provisioner.api.services import Services
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.written import document_of
from provisioner.domain.access import AccessRole
from provisioner.domain.audit import AuditFilter
from provisioner.domain.endpoint import Phase
from provisioner.wire.plan import PlanView
from tests.store.examples import NOON, SteppedClock
from tests.store.statements import run_statement
from tests.unit.api.application import application
from tests.unit.api.callers import caller
from tests.unit.api.conftest import OPERATOR_KEY, REQUEST, idempotent
from tests.unit.api.test_endpoints_changes import become
from tests.unit.catalog.packs import PACK, site_with, small_catalog

MASTERS = "/v1/model-masters"


@pytest.fixture(autouse=True)
async def imported(services: Services) -> None:
    """The server has started: its files are imported."""
    await bring_in(services)


async def bring_in(services: Services) -> None:
    """Import the files of a server, as it does when it starts."""
    documents = [document_of(model) for model in services.catalog.models.values()]
    await services.store.models.bring_in(documents, NOON)


def written(**changes: Any) -> dict[str, Any]:
    """What the file of a new model `acme/chat` says."""
    body = dict(document_of(small_catalog().models["tiny"]).body)
    return body | {"id": "acme/chat"} | changes


def master(**changes: Any) -> dict[str, Any]:
    """Its master."""
    return {**written()["master"], **changes}


async def add(operator: httpx2.AsyncClient, body: Any = None, *, key: str = "add") -> httpx2.Response:
    """Add a model, the one above unless told otherwise."""
    return await operator.post(MASTERS, json=written() if body is None else body, headers=idempotent(key))


async def put(
    operator: httpx2.AsyncClient, body: dict[str, Any], match: str | None, *, key: str = "put"
) -> httpx2.Response:
    """Say anew what a model is."""
    headers = idempotent(key) | ({} if match is None else {"If-Match": match})
    return await operator.put(f"{MASTERS}/{body['id']}", json=body, headers=headers)


async def picker(operator: httpx2.AsyncClient) -> list[str]:
    """The models that are offered."""
    return [model["id"] for model in (await operator.get("/v1/models")).json()["items"]]


async def findings(answer: httpx2.Response) -> list[tuple[str, str]]:
    """Reason and field of each finding."""
    return [(finding["reason"], finding["field"]) for finding in answer.json()["findings"]]


async def test_the_picker_asks_for_a_key(stranger: httpx2.AsyncClient, operator: httpx2.AsyncClient) -> None:
    """Ledger: CAT-06."""
    for path in ("/v1/models", MASTERS, f"{MASTERS}/tiny"):
        assert (await stranger.get(path)).status_code == 401
        assert (await operator.get(path)).status_code == 200


async def test_an_added_model_is_offered_and_can_be_planned_with_at_once(
    operator: httpx2.AsyncClient, acme: str
) -> None:
    """Ledger: CAT-04."""
    added = await add(operator)
    assert (added.status_code, added.headers["ETag"]) == (201, '"1"')
    assert added.headers["Location"] == f"{MASTERS}/acme/chat"
    view = added.json()
    assert (view["id"], view["version"], view["origin"], view["offered"]) == ("acme/chat", 1, "api", True)
    assert (view["model"], view["findings"]) == (written(), [])
    assert "acme/chat" in await picker(operator)
    assert (await operator.get("/v1/models/prefill?model=acme/chat")).json()["serving"]["parallel"] == 2
    planned = await operator.post("/v1/plan", json=REQUEST | {"model": "acme/chat"})
    assert planned.json()["runtime"]["model"] == "acme/chat"


async def test_an_id_that_is_there_cannot_be_added_again(operator: httpx2.AsyncClient) -> None:
    """Ledger: CAT-04."""
    first = await add(operator)
    assert (await add(operator)).json() == first.json()
    again = await add(operator, key="again")
    assert (again.status_code, again.json()["reason"]) == (409, "NameTaken")
    of_a_file = await add(operator, written(id="tiny"), key="file")
    assert of_a_file.status_code == 409
    await operator.post(f"{MASTERS}/acme/chat:archive", headers=idempotent("archive"))
    assert "restore" in (await add(operator, key="archived")).json()["hint"]


async def test_an_update_makes_the_next_version_of_the_one_that_was_read(operator: httpx2.AsyncClient) -> None:
    """Ledger: CAT-04."""
    read = await operator.get(f"{MASTERS}/tiny")
    assert (read.headers["ETag"], read.json()["origin"]) == ('"1"', "file")
    body = read.json()["model"] | {"description": "Another"}
    missing = await put(operator, body, None, key="a")
    assert (missing.status_code, missing.json()["reason"]) == (428, "PreconditionRequired")
    changed = await put(operator, body, read.headers["ETag"], key="b")
    assert (changed.status_code, changed.headers["ETag"], changed.json()["version"]) == (200, '"2"', 2)
    stale = await put(operator, body | {"description": "Third"}, '"1", "7"', key="c")
    assert (stale.status_code, stale.json()["reason"]) == (412, "PreconditionFailed")
    repeated = await put(operator, body, read.headers["ETag"], key="b")
    assert (repeated.status_code, repeated.json()) == (200, changed.json())
    assert (await put(operator, body | {"description": "Third"}, "*", key="d")).json()["version"] == 3
    assert (await operator.get("/v1/models/tiny")).json()["description"] == "Third"


async def test_a_patch_changes_what_it_names(operator: httpx2.AsyncClient) -> None:
    headers = idempotent("a") | {"If-Match": '"1"'}
    patch = {"master": {"serving": {"parallel": 4}}, "card": {"evaluation": "measured"}}
    answer = await operator.patch(f"{MASTERS}/tiny", json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
    before = small_catalog().models["tiny"].model_dump(mode="json", by_alias=True)
    before["master"]["serving"]["parallel"] = 4
    before["card"]["evaluation"] = "measured"
    assert answer.json()["model"] == before
    wrong = await operator.patch(f"{MASTERS}/tiny", json={"id": "other"}, headers=idempotent("b") | {"If-Match": "*"})
    assert ("NameMismatch", "id") in await findings(wrong)


async def test_an_archived_model_is_hidden_and_offered_for_nothing_new(
    operator: httpx2.AsyncClient, acme: str, services: Services
) -> None:
    """Ledger: CAT-04."""
    made = await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("before"))
    assert made.status_code == 202
    archived = await operator.post(f"{MASTERS}/tiny:archive", headers=idempotent("a"))
    assert (archived.status_code, archived.headers["ETag"]) == (200, '"1-archived"')
    assert (archived.json()["offered"], archived.json()["archivedAt"]) == (
        False,
        NOON.isoformat().replace("+00:00", "Z"),
    )
    assert "tiny" not in await picker(operator)
    assert (await operator.get("/v1/models/tiny")).status_code == 404
    listed = (await operator.get(MASTERS)).json()["items"]
    everything = (await operator.get(f"{MASTERS}?archived=true")).json()["items"]
    assert [one["id"] for one in listed] == ["acme/speech", "big"]
    assert [one["id"] for one in everything] == ["acme/speech", "big", "tiny"]
    for path in ("/v1/plan", "/v1/endpoints"):
        refused = await operator.post(path, json=REQUEST | {"name": "more"}, headers=idempotent(path))
        assert (refused.status_code, await findings(refused)) == (422, [("ModelArchived", "model")])
    assert (await operator.get(f"/v1/endpoints/{acme}/chat")).json()["model"]["id"] == "tiny"
    changed = await put(operator, written(id="tiny"), "*")
    assert (changed.status_code, changed.json()["reason"]) == (409, "ModelArchived")
    restored = await operator.post(f"{MASTERS}/tiny:restore", headers=idempotent("b"))
    assert (restored.json()["offered"], restored.headers["ETag"]) == (True, '"1"')
    assert "tiny" in await picker(operator)


@pytest.mark.parametrize(("verb", "body"), [("scale", {"maxReplicas": 1}), ("update", {"serving": {"parallel": 1}})])
async def test_an_archived_model_stays_where_it_runs(
    verb: str, body: Any, operator: httpx2.AsyncClient, acme: str, services: Services, clock: SteppedClock
) -> None:
    """Ledger: CAT-04."""
    made = (await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))).json()
    await become(made["subject"], Phase.READY, services, clock)
    for model in ("tiny", "acme/chat"):
        if model == "acme/chat":
            await add(operator)
        await operator.post(f"{MASTERS}/{model}:archive", headers=idempotent(model))
    other = await operator.post(
        f"/v1/endpoints/{acme}/chat:update", json={"model": "acme/chat"}, headers=idempotent("o")
    )
    assert ("ModelArchived", "model") in await findings(other)
    changed = await operator.post(f"/v1/endpoints/{acme}/chat:{verb}", json=body, headers=idempotent("c"))
    assert changed.status_code == 202, changed.text


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"kind": "transcription"}, ("KindNotServed", "kind")),
        ({"master": master(runtime="vlm")}, ("UnknownRuntime", "master.runtime")),
        ({"master": master(image="nothing")}, ("UnknownImage", "master.image")),
        ({"master": master(serving={"contextSiz": 1})}, ("UnknownParameter", "master.serving.contextSiz")),
        ({"master": master(serving={"contextSize": 65536})}, ("ContextTooLong", "master.serving.contextSize")),
        ({"master": master(serving={"parallel": [[[[]]]]})}, ("InvalidParameter", "master.serving.parallel")),
        ({"profiles": ["prod"]}, ("ModelNotOffered", "profiles")),
        ({"id": "acme/versions"}, ("ReservedName", "id")),
        ({"id": "no/such/id"}, ("InvalidValue", "id")),
        ({"card": {}}, ("MissingField", "card.provenance")),
        ({"colour": "red"}, ("UnknownField", "colour")),
        ({"description": "a\u0000b"}, ("BadCharacter", "description")),
        ({"description": "x" * 300_000}, ("FileTooLarge", "")),
        ({"architecture": written()["architecture"] | {"layers": 10**40}}, ("InvalidValue", "architecture.layers")),
    ],
)
async def test_what_a_file_would_be_refused_for_is_refused(
    changes: dict[str, Any], finding: tuple[str, str], operator: httpx2.AsyncClient, services: Services
) -> None:
    answer = await add(operator, written(**changes))
    assert answer.status_code == 422, answer.text
    assert finding in await findings(answer)
    assert len(await services.store.models.newest()) == 3


@pytest.mark.parametrize(
    ("site", "finding"),
    [
        ({"sovereign": True}, ("RuntimeNotAllowed", "master.runtime")),
        ({"runtimes": ("vllm",)}, ("RuntimeNotAllowed", "master.runtime")),
        ({"retired_images": ("example.com/llama.cpp",)}, ("ImageRetired", "master.image")),
    ],
)
async def test_what_this_installation_would_never_offer_is_refused(
    site: dict[str, Any], finding: tuple[str, str], services: Services
) -> None:
    transport = httpx2.ASGITransport(application(replace(services, site=site_with(**site))))
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=headers) as operator:
        assert finding in await findings(await add(operator))


async def test_a_file_is_imported_and_exported_as_it_is(operator: httpx2.AsyncClient) -> None:
    text = (PACK / "models" / "tiny.yaml").read_text().replace("id: tiny", "id: acme/tiny")
    yaml = {"Content-Type": "application/yaml"}
    made = await operator.post(f"{MASTERS}:import", content=text, headers=idempotent("a") | yaml)
    assert (made.status_code, made.json()["version"], made.json()["outcome"]) == (201, 1, "added")
    again = await operator.post(f"{MASTERS}:import", content=text, headers=idempotent("b") | yaml)
    assert (again.status_code, again.json()["version"], again.json()["outcome"]) == (200, 1, "unchanged")
    exported = await operator.get(f"{MASTERS}/acme/tiny/export")
    assert exported.headers["Content-Type"].startswith("application/yaml")
    assert 'filename="acme--tiny.yaml"' in exported.headers["Content-Disposition"]
    same = await operator.post(f"{MASTERS}:import", content=exported.content, headers=idempotent("c") | yaml)
    assert same.json() == made.json() | {"outcome": "unchanged"}
    body = written(id="acme/tiny", description="Changed")
    changed = await operator.post(f"{MASTERS}:import", json=body, headers=idempotent("d"))
    assert (changed.status_code, changed.json()["version"], changed.json()["outcome"]) == (200, 2, "changed")
    stale = await operator.post(f"{MASTERS}:import", content=text, headers=idempotent("e") | yaml | {"If-Match": '"1"'})
    assert stale.status_code == 412


async def test_a_body_that_is_no_yaml_is_refused_with_its_line(operator: httpx2.AsyncClient) -> None:
    for number, content in enumerate((b"id: a\nid: b\n", b"\xff", b"a: &b 1\n", b"", b"- 1\n")):
        answer = await operator.post(f"{MASTERS}:import", content=content, headers=idempotent(f"{number}"))
        assert answer.status_code == 422, answer.text
        if number == 0:
            assert answer.json()["findings"][0]["message"].startswith("body:2: ")


async def test_what_is_exported_plans_the_same_offline(
    operator: httpx2.AsyncClient, acme: str, services: Services, tmp_path: Path
) -> None:
    """An overlay of exported files gives the very plan that the server gives."""
    changed = written(id="tiny", master=master(serving={"contextSize": 8192, "parallel": 1}))
    assert (await put(operator, changed, "*")).status_code == 200
    await add(operator)
    (tmp_path / "models").mkdir()
    for model in ("tiny", "acme/chat"):
        exported = await operator.get(f"{MASTERS}/{model}/export")
        (tmp_path / "models" / f"{model.replace('/', '--')}.yaml").write_bytes(exported.content)
    offline = load_catalog(PACK, models=PACK / "models", overlay=tmp_path)
    for model in ("tiny", "acme/chat"):
        request = REQUEST | {"model": model}
        online = await operator.post("/v1/plan", json=request)
        _, plan = admit_endpoint(request, catalog=offline, site=services.site, endpoint_id=preview_id(request))
        assert online.content == PlanView.model_validate(plan).model_dump_json(by_alias=True).encode()
    assert online.json()["runtime"]["serving"] == {"contextSize": 4096, "parallel": 2}


async def test_a_file_that_changed_is_not_imported_over_the_api_and_that_is_told(
    operator: httpx2.AsyncClient, services: Services
) -> None:
    assert (await put(operator, written(id="tiny", description="Ours"), "*")).json()["findings"] == []
    tiny = services.catalog.models["tiny"].model_copy(update={"description": "News"})
    upgraded = replace(services, catalog=replace(services.catalog, models={**services.catalog.models, "tiny": tiny}))
    await bring_in(upgraded)
    async with client_of(upgraded) as restarted:
        listed = (await restarted.get(MASTERS)).json()["items"]
        told = {one["id"]: [found["reason"] for found in one["findings"]] for one in listed}
        assert told == {"acme/speech": [], "big": [], "tiny": ["ImportConflict"]}
        assert (await restarted.get("/v1/models/tiny")).json()["description"] == "Ours"
        solved = await put(restarted, written(id="tiny", description="News"), "*", key="solve")
        assert solved.json()["findings"] == []


async def test_a_model_whose_file_is_gone_is_told_and_not_offered(services: Services) -> None:
    rest = {name: model for name, model in services.catalog.models.items() if name != "tiny"}
    async with client_of(replace(services, catalog=replace(services.catalog, models=rest))) as restarted:
        gone = (await restarted.get(f"{MASTERS}/tiny")).json()
        assert (gone["offered"], [found["reason"] for found in gone["findings"]]) == (False, ["FileGone"])
        assert "tiny" not in await picker(restarted)


async def test_a_version_that_this_server_cannot_serve_takes_no_other_with_it(
    operator: httpx2.AsyncClient, services: Services
) -> None:
    """A runtime went with an upgrade of the pack, after a model of the API had named it."""
    await add(operator)
    runtimes = {name: one for name, one in services.catalog.runtimes.items() if name != "llama-cpp"}
    models = {name: one for name, one in services.catalog.models.items() if one.master.runtime != "llama-cpp"}
    upgraded = replace(services, catalog=replace(services.catalog, runtimes=runtimes, models=models))
    async with client_of(upgraded) as restarted:
        assert await picker(restarted) == sorted(models)
        (finding,) = (await restarted.get(f"{MASTERS}/acme/chat")).json()["findings"]
        assert (finding["reason"], finding["severity"]) == ("UnknownRuntime", "error")


async def test_another_process_sees_a_change_within_a_second(
    operator: httpx2.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(services) as other:
        assert "acme/chat" not in await picker(other)
        await add(operator)
        assert "acme/chat" in await picker(operator)
        assert present.KNOWN_SECONDS < 1
        monkeypatch.setattr(present, "KNOWN_SECONDS", 0)
        assert "acme/chat" in await picker(other)


async def test_versions_are_kept_and_listed_page_by_page(operator: httpx2.AsyncClient) -> None:
    for number in range(3):
        await put(operator, written(id="tiny", description=f"{number}"), "*", key=f"{number}")
    first = (await operator.get(f"{MASTERS}/tiny/versions?limit=3")).json()
    rest = (await operator.get(f"{MASTERS}/tiny/versions?cursor={first['nextCursor']}")).json()
    told = [(one["version"], one["origin"], one["model"]["description"]) for one in first["items"] + rest["items"]]
    assert told == [(4, "api", "2"), (3, "api", "1"), (2, "api", "0"), (1, "file", "A tiny model")]
    details = (await operator.get(f"{MASTERS}/tiny")).json()
    assert [one["version"] for one in details["versions"]] == [4, 3, 2, 1]
    assert rest["nextCursor"] is None


async def test_names_of_nothing_are_not_found(operator: httpx2.AsyncClient) -> None:
    for number, model in enumerate(("nobody", "acme/nobody", "a%01b", "x" * 200, "a/b/c", "-")):
        for path in ("", "/versions", "/export"):
            answer = await operator.get(f"{MASTERS}/{model}{path}")
            assert answer.status_code == 404, answer.text
        gone = await operator.post(f"{MASTERS}/{model}:archive", headers=idempotent(f"{number}"))
        assert gone.status_code == 404


async def test_a_version_of_another_server_hides_no_other(
    operator: httpx2.AsyncClient, services: Services, tmp_path: Path
) -> None:
    await add(operator)
    await run_statement(
        f"sqlite:///{tmp_path}/store.sqlite", "UPDATE model_versions SET body='{}' WHERE model='acme/chat'"
    )
    listed = (await operator.get(MASTERS)).json()["items"]
    assert [one["id"] for one in listed] == ["acme/speech", "big", "tiny"]
    assert (await operator.get(f"{MASTERS}/acme/chat")).json()["reason"] == "RowUnreadable"


async def test_the_catalog_is_not_one_tenants_to_change(
    services: Services, transport: httpx2.ASGITransport, acme: str
) -> None:
    async with await caller(services, transport, "bound", AccessRole.ADMIN, tenant=acme) as bound:
        assert (await add(bound)).status_code == 403
        assert (await bound.get(MASTERS)).status_code == 200


async def test_changes_are_told_by_the_audit_log(operator: httpx2.AsyncClient, services: Services) -> None:
    """Ledger: SEC-03."""
    await add(operator)
    await put(operator, written(description="Other"), '"1"')
    events = await services.store.audit.oldest(AuditFilter(subject="acme/chat"))
    assert [(event.action, event.actor) for event in events] == [
        ("model.create", "admin:bootstrap"),
        ("model.update", "admin:bootstrap"),
    ]


def client_of(services: Services) -> httpx2.AsyncClient:
    """The operator at another process, with services of its own."""
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    transport = httpx2.ASGITransport(application(services))
    return httpx2.AsyncClient(transport=transport, base_url="http://api.example.com", headers=headers)
