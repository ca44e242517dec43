"""`tenantry tier publish` says what would change as a preview does: objects, fields, what that does, no secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.cli.main import main
from provisioner.domain.clock import SystemClock
from provisioner.domain.lease import Fence
from provisioner.embedded.apiserver.server import serve_api
from provisioner.platform.cluster import HttpCluster
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.kinds import NODE_PROVIDER
from tests.unit.platform.conftest import write_kubeconfig
from tests.unit.rendering.examples import SITE, site

TIER = "dedicated"


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpCluster]:
    """The control plane cluster that the commands publish to."""
    (plane,) = site().control_planes
    server = await serve_api(state=tmp_path / "state", host="127.0.0.1", port=0, clock=SystemClock())
    kubeconfig = write_kubeconfig(tmp_path, server.url)
    kubeconfig.write_text(kubeconfig.read_text().replace("name: control-plane", f"name: {plane}"))
    monkeypatch.setenv("TENANTRY_BOOTSTRAP_KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("TENANTRY_SITE", str(SITE))
    monkeypatch.delenv("TENANTRY_CATALOG", raising=False)
    clusters = LightkubeClusters(kubeconfig)
    yield clusters.control_plane(plane)
    await clusters.close()
    await server.close()


async def run(*line: str) -> int:
    """The command, beside the server."""
    return await asyncio.to_thread(main, ["tier", "publish", *line])


async def test_dry_run_names_every_object_and_writes_none(
    cluster: HttpCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(TIER, "--dry-run") == 0
    out = capsys.readouterr().out
    assert f"changes of {TIER}" in out
    assert "WHERE" not in out
    assert "+ VirtualClusterTemplate/tenantry-dedicated" in out
    assert await cluster.list(NODE_PROVIDER) == []


async def test_site_that_nobody_named_is_told(
    cluster: HttpCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert await run(TIER, "--dry-run") == 0
    assert "no site is named" not in capsys.readouterr().err
    monkeypatch.delenv("TENANTRY_SITE")
    monkeypatch.setenv("TENANTRY_STATE", str(tmp_path))
    (tmp_path / "site.yaml").write_text(SITE.read_text())
    assert await run(TIER, "--dry-run") == 0
    told = (
        f"no site is named: taking that of the installation here, {tmp_path}/site.yaml; TENANTRY_SITE names another\n"
    )
    assert told in capsys.readouterr().err


async def test_publishing_again_changes_nothing(cluster: HttpCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(TIER) == 0
    asking, published = capsys.readouterr().err.splitlines()
    assert asking.startswith("asking control-plane what would change: http://127.0.0.1:")
    assert "published to" in published
    assert await run(TIER, "--dry-run") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("nothing changes")


async def test_changed_field_is_told_with_what_it_does_to_nodes_and_without_secrets(
    cluster: HttpCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(TIER) == 0
    capsys.readouterr()
    stored = (await cluster.list(NODE_PROVIDER))[0]
    manifest = {
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": {"name": stored["metadata"]["name"]},
        "spec": {**stored["spec"], "properties": {"region": "elsewhere", "password": "Tr0ub4dor-and-3-more"}},
    }
    await cluster.apply(manifest, kind=NODE_PROVIDER, fence=Fence(0))
    assert await run(TIER, "--dry-run") == 0
    told = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert told[4][:2] == ["±", f"NodeProvider/{stored['metadata']['name']}"]
    became = '{"password": "(secret)", "region": "elsewhere"} -> absent'
    assert told[5] == ["spec.properties", "nodes", f"replaced, at once  {became}"]
    assert {line[0] for line in told[6:]} <= {"metadata.labels"}


async def test_kubeconfig_that_cannot_be_used_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTRY_BOOTSTRAP_KUBECONFIG", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TENANTRY_SITE", str(SITE))
    assert await run(TIER) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: reading kubeconfig: no such file: {tmp_path / 'nowhere'}"
    assert "TENANTRY_BOOTSTRAP_KUBECONFIG" in hint
