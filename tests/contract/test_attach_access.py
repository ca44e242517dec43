"""A cluster that `tenantry embedded --attach` cannot play in: who says so, and what it says to do."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.embedded.attach import run_attached
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.plane import PlaneOptions
from provisioner.embedded.survey import survey
from provisioner.embedded.target import read_target
from tests.contract.attached import NEEDS_SERVER
from tests.contract.embedded_cluster import CLOCK

Json = dict[str, Any]


@NEEDS_SERVER
async def test_account_without_access_is_told_what_is_missing(kubeconfig: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"]["token"] = "nobody"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    target = read_target(tmp_path / "kubeconfig")
    async with open_session(token=target.token, tls=target.tls) as session:
        with pytest.raises(RejectedError, match="looking at what the cluster has") as refused:
            await survey(Api(session, target.url), context=target.context)
    assert "playgrounds" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}}, "neither a token"),
        ({"client-certificate-data": "bm8=", "client-key-data": "bm8="}, "certificate or key that cannot be read"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(tmp_path: Path, user: Json, message: str) -> None:
    with pytest.raises(RejectedError, match=message):
        read_target(written(tmp_path, "https://127.0.0.1:1", user=user))


@pytest.mark.parametrize("current", [None, "nowhere"])
def test_current_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, current: str | None) -> None:
    path = written(tmp_path, "https://127.0.0.1:1")
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, "current-context": current}))
    with pytest.raises(RejectedError, match=current or "no current context") as refused:
        read_target(path)
    assert "it has: acme" in (refused.value.hint or "")


async def test_silent_server_is_named_at_once_and_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("provisioner.embedded.survey.ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections wait there for somebody who takes them
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        error = await unanswered(tmp_path, url)
    assert capsys.readouterr().err == f"looking at what the cluster has: acme ({url})\n"
    assert f"calling {url}: no answer in time" in error.message


async def test_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = await unanswered(tmp_path, "http://127.0.0.1:9")
    assert "http://127.0.0.1:9" in error.message


async def unanswered(folder: Path, url: str) -> RetryableError:
    """What the command ends with where nobody answers: it says what to do."""
    options = PlaneOptions(state=folder / "state", port=0, gateway_port=1, public_port=2, kubeconfig=folder / "ours")
    with pytest.raises(RetryableError) as error:
        await run_attached(options, attach=written(folder, url), clock=CLOCK, stop=asyncio.Event())
    assert error.value.reason == "Unreachable"
    assert "`acme`" in error.value.message
    assert "kubectl get --raw /readyz" in (error.value.hint or "")
    return error.value


def written(folder: Path, url: str, *, user: Json | None = None) -> Path:
    """A kubeconfig whose current context is called `acme`."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "acme",
        "clusters": [{"name": "acme", "cluster": {"server": url}}],
        "users": [{"name": "acme", "user": user or {"token": "anything"}}],
        "contexts": [{"name": "acme", "context": {"cluster": "acme", "user": "acme"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_kubeconfig_that_is_attached_with_is_never_written(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("kept")
    options = PlaneOptions(
        state=tmp_path, port=0, gateway_port=1, public_port=2, kubeconfig=tmp_path / "." / "kubeconfig"
    )
    with pytest.raises(RejectedError, match="same file"):
        await run_attached(options, attach=tmp_path / "kubeconfig", clock=CLOCK, stop=asyncio.Event())
    assert (tmp_path / "kubeconfig").read_text() == "kept"


def test_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="nowhere"):
        read_target(tmp_path / "nowhere")
