"""`tenantry model export` and `import` against the real API on a socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.api.services import Services
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site, models_root
from provisioner.catalog.site import Site
from provisioner.catalog.written import document_of
from provisioner.cli.main import main
from provisioner.cli.session import send
from provisioner.client import endpoint_calls
from provisioner.domain.key import key_digest
from provisioner.rendering.pack import compile_pack
from provisioner.wiring.serving import serve_app
from tests.store.examples import NOON, SteppedClock
from tests.store.fresh import open_fresh
from tests.unit.api.application import application
from tests.unit.api.conftest import GATEWAY_KEY, OPERATOR_KEY, CountingIds, bootstrap_key
from tests.unit.catalog.packs import PACK, small_catalog, small_site

SERVED = "Qwen2-VL-2B-Instruct"
REQUEST = {
    "name": "chat",
    "tenant": "acme",
    "model": "acme/vision",
    "region": "eu-central-1",
    "tier": "dedicated",
    "scaling": {"minReplicas": 1, "maxReplicas": 2},
}


def newer_catalog() -> Catalog:
    """The small one with another file of `tiny`, as an upgrade brings it."""
    catalog = small_catalog()
    tiny = catalog.models["tiny"].model_copy(update={"description": "News"})
    return replace(catalog, models={**catalog.models, "tiny": tiny})


@pytest.fixture(params=[(small_catalog, small_site)])
def api(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The API of a catalog and a site, in a thread with a loop of its own; the environment names it. Imported were the
    files of the small catalog where the server has the newer one."""
    catalog, site = (load() for load in request.param)
    listener = socket.create_server(("127.0.0.1", 0))
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    serving = serve(catalog, site, folder=tmp_path, listener=listener, stop=stop)
    thread = threading.Thread(target=loop.run_until_complete, args=(serving,))
    thread.start()
    (tmp_path / "operator.key").write_text(OPERATOR_KEY)
    monkeypatch.setenv("TENANTRY_OPERATOR_KEY_FILE", str(tmp_path / "operator.key"))
    monkeypatch.setenv("TENANTRY_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
    yield
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


async def serve(catalog: Catalog, site: Site, *, folder: Path, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until `stop`."""
    clock = SteppedClock()
    store = await open_fresh(folder / "store.sqlite", clock=clock)
    await store.keys.add(bootstrap_key())
    brought = small_catalog() if "tiny" in catalog.models else catalog
    await store.models.bring_in([document_of(model) for model in brought.models.values()], NOON)
    services = Services(
        store=store,
        catalog=catalog,
        site=site,
        clock=clock,
        ids=CountingIds(),
        gateway_key_digest=key_digest(GATEWAY_KEY),
        revised=compile_pack(catalog, site).revised if catalog is not small_catalog() else lambda plan: plan,
    )
    await serve_app(application(services), listener, stop)
    await store.close()


@pytest.mark.usefixtures("api")
def test_a_file_goes_in_and_comes_out_for_the_catalog_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger: CAT-04."""
    out = tmp_path / "own"
    assert main(["model", "export", "--out", str(out)]) == 0
    assert (capsys.readouterr().out, list((out / "models").iterdir())) == ("", [])
    text = (PACK / "models" / "tiny.yaml").read_text().replace("id: tiny", "id: acme/tiny")
    (tmp_path / "new.yaml").write_text(text)
    for outcome in ("added", "unchanged"):
        assert main(["model", "import", str(tmp_path / "new.yaml"), "-o", "json"]) == 0
        told = capsys.readouterr()
        assert (json.loads(told.out)["version"], json.loads(told.out)["outcome"]) == (1, outcome)
        assert f"acme/tiny: {outcome}, version 1" in told.err
    (tmp_path / "new.yaml").write_text(text.replace("description:", "description: new,", 1))
    assert main(["model", "import", str(tmp_path / "new.yaml")]) == 0
    assert "acme/tiny: changed, version 2" in capsys.readouterr().err
    assert main(["model", "export", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}/models/acme--tiny.yaml\n"
    assert main(["model", "export", "big", "--out", str(out)]) == 0
    exported = load_catalog(PACK, models=PACK / "models", overlay=out).models
    assert exported["big"] == small_catalog().models["big"]
    assert exported["acme/tiny"].master == small_catalog().models["tiny"].master


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("api", [(newer_catalog, small_site)], indirect=True)
def test_what_a_file_of_the_catalog_contradicts_is_told_until_it_is_brought_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (PACK / "models" / "tiny.yaml").read_text()
    described = next(line for line in text.splitlines() if line.startswith("description:"))
    file = tmp_path / "tiny.yaml"
    file.write_text(text.replace(described, "description: Ours"))
    assert main(["model", "import", str(file)]) == 0
    told = capsys.readouterr().err
    assert "tiny: changed, version 2" in told
    assert "warning: importing model: its file changed and was not imported over what the API said: `tiny`" in told
    assert "hint: bring the file in with `tenantry model import FILE`" in told
    file.write_text(text.replace(described, "description: News"))
    assert main(["model", "import", str(file)]) == 0
    told = capsys.readouterr().err
    assert "tiny: changed, version 3" in told
    assert "warning" not in told


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("api", [(load_catalog, lambda: load_site(example_site()))], indirect=True)
def test_what_is_exported_plans_offline_as_it_does_on_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger: TEN-13."""
    monkeypatch.setenv("TENANTRY_SITE", str(example_site()))
    text = (models_root() / f"{SERVED}.yaml").read_text()
    (tmp_path / "new.yaml").write_text(text.replace(f"id: {SERVED}", "id: acme/vision"))
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    assert main(["tenant", "create", "acme", "--tier", "dedicated"]) == 0
    assert main(["model", "import", str(tmp_path / "new.yaml")]) == 0
    assert main(["model", "export", "--out", str(tmp_path / "own")]) == 0
    capsys.readouterr()
    assert main(["plan", "-f", str(tmp_path / "request.json"), "--catalog", str(tmp_path / "own"), "-o", "json"]) == 0
    offline = json.loads(capsys.readouterr().out)["plan"]
    online = json.loads(send(endpoint_calls.plan_endpoint(REQUEST)).model_dump_json(by_alias=True))
    assert online["runtime"]["model"] == "acme/vision"
    assert {field: offline[field] for field in online} == online


@pytest.mark.usefixtures("api")
def test_what_is_wrong_is_told_with_the_line_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.yaml"
    file.write_text((PACK / "models" / "tiny.yaml").read_text().replace("parallel: 2", "paralel: 2"))
    assert main(["model", "import", str(file)]) == 1
    told = capsys.readouterr().err
    assert f"error: {file}:10: master.serving.paralel: " in told
    assert "did you mean `parallel`?" in told
    assert main(["model", "export", "nobody", "--out", str(tmp_path / "own")]) == 1
    assert "there is none with the id: nobody" in capsys.readouterr().err
    assert not (tmp_path / "own").exists()
    (tmp_path / "a-file").write_text("")
    assert main(["model", "export", "tiny", "--out", str(tmp_path / "a-file")]) == 1
    assert "writing models" in capsys.readouterr().err


@pytest.mark.usefixtures("api")
def test_models_are_the_servers_where_one_is_named_and_the_files_where_a_catalog_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["model", "list", "-o", "json"]) == 0
    assert [found["id"] for found in json.loads(capsys.readouterr().out)] == sorted(small_catalog().models)
    assert main(["model", "list"]) == 0
    assert "ORIGIN" in capsys.readouterr().out
    assert main(["model", "show", "tiny", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["origin"], len(shown["versions"])) == (1, "file", 1)
    (tmp_path / "models").mkdir()
    assert main(["model", "show", SERVED, "--catalog", str(tmp_path), "-o", "json"]) == 0
    assert "versions" not in json.loads(capsys.readouterr().out)
    monkeypatch.delenv("TENANTRY_URL")
    assert main(["model", "show", SERVED, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == SERVED
