"""A kubeconfig that cannot be used is refused: with the file, what is wrong in it, what to do, and no secret of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.domain.errors import RejectedError, RetryableError
from provisioner.platform.clusters import LightkubeClusters
from provisioner.platform.interface import ObjectRef
from provisioner.platform.kinds import NAMESPACE

ANY = ObjectRef(NAMESPACE, "inference")
SECRET = "Tr0ub4dor-and-3-more"


def written(folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    """A kubeconfig whose context is called `eu-central-1`."""
    config = {
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:9", **(cluster or {})}}],
        "users": [{"name": "service", "user": user or {"token": SECRET}}],
        "contexts": [{"name": "eu-central-1", "context": {"cluster": "one", "user": "service"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def refused(path: Path, *, context: str = "eu-central-1") -> RejectedError:
    """What a look for the context is refused with: it names the file, says what to do, and tells no secret."""
    with pytest.raises(RejectedError) as caught:
        LightkubeClusters(path).control_plane(context)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert SECRET not in f"{caught.value} {caught.value.hint}"
    return caught.value


def test_missing_file_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "nowhere")
    assert error.reason == "BadKubeconfig"
    assert "no such file" in error.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not in the form of a kubeconfig"),
        ("[]", "not in the form of a kubeconfig"),
        (f"token: {SECRET}\nusers: [", "no YAML, line 2"),
        ("contexts: []", "it has no `clusters`"),
        ("clusters: 3\ncontexts: 4", "not in the form of a kubeconfig"),
        ("clusters: [{name: a, cluster: {server: 3}}]\ncontexts: []", "Expected `str`, got `int`"),
    ],
)
def test_broken_file_says_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    error = refused(path)
    assert error.reason == "BadKubeconfig"
    assert told in error.message


def test_unknown_context_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    error = refused(written(tmp_path), context="eu-central-2")
    assert error.reason == "UnknownControlPlane"
    assert "eu-central-1" in (error.hint or "")


@pytest.mark.parametrize(("part", "named"), [("clusters", "one"), ("users", "service")])
def test_context_that_names_what_is_not_there(tmp_path: Path, part: str, named: str) -> None:
    path = written(tmp_path)
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, part: []}))
    assert f"`{named}`" in refused(path).message


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        ({"server": "127.0.0.1:6443"}, None, "no http:// or https:// address: `127.0.0.1:6443`"),
        ({"certificate-authority": "ca.crt"}, None, "no such file"),
        ({"certificate-authority-data": "bm8="}, None, "certificate or key that cannot be read"),
        ({}, {"client-certificate-data": "bm8=", "client-key-data": "bm8="}, "certificate or key that cannot be read"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider not supported"),
    ],
)
def test_address_and_credentials_that_cannot_be_used(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any] | None, told: str
) -> None:
    error = refused(written(tmp_path, cluster=cluster, user=user))
    assert error.reason == "BadKubeconfig"
    assert told in error.message


EXEC = "client.authentication.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ({"tokenFile": "nowhere"}, "not found"),
        ({"exec": {"apiVersion": EXEC, "command": "/nowhere/login"}}, "no such file"),
        ({"exec": {"apiVersion": EXEC, "command": "false"}}, "false returned 1"),
        ({"exec": {"apiVersion": EXEC, "command": "true"}}, "JSONDecodeError"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true"}}, "not implemented"),
    ],
)
async def test_credentials_that_are_to_be_fetched_and_are_not_there(
    tmp_path: Path, user: dict[str, Any], told: str
) -> None:
    """They may be there later, so whoever waits for them tries again."""
    clusters = LightkubeClusters(written(tmp_path, user=user))
    with pytest.raises(RetryableError) as error:
        await clusters.control_plane("eu-central-1").get(ANY)
    await clusters.close()
    assert error.value.reason == "NoCredentials"
    assert told in error.value.message
    assert error.value.hint


async def test_token_file_lies_beside_the_kubeconfig(tmp_path: Path) -> None:
    """As kubectl has it, whatever the working directory; so it gets as far as the server, which is not there."""
    (tmp_path / "token").write_text(SECRET)
    clusters = LightkubeClusters(written(tmp_path, user={"tokenFile": "token"}))
    with pytest.raises(RetryableError) as error:
        await clusters.control_plane("eu-central-1").get(ANY)
    await clusters.close()
    assert error.value.reason == "Unreachable"
