"""What the server refuses because it has no passwords, and what it never does."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx2
import pytest

from provisioner.domain.errors import RejectedError
from provisioner.embedded.apiserver.server import ApiServer, serve_api
from tests.unit.embedded.apiserver.conftest import SteppedClock, config_map, connect


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:80", "127.0.0.1.example.com", ""])
async def test_foreign_host_is_refused(http: httpx2.AsyncClient, host: str) -> None:
    answer = await http.get("/api/v1/namespaces", headers={"Host": host})
    assert answer.status_code in (400, 403)
    assert "items" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", "http://127.0.0.1"])
async def test_any_origin_is_refused(http: httpx2.AsyncClient, origin: str) -> None:
    answer = await http.get("/api/v1/namespaces", headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["reason"] == "Forbidden"


async def test_localhost_is_a_good_host(server: ApiServer) -> None:
    async with connect(server.url.replace("127.0.0.1", "localhost")) as http:
        answer = await http.get("/api/v1/namespaces", headers={"Host": server.url.removeprefix("http://")})
        assert answer.status_code == 200


async def test_token_is_accepted_and_never_logged(http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await http.get("/api/v1/nothings", headers={"Authorization": "Bearer very-secret-token"})
    assert answer.status_code == 404
    assert (await http.get("/version", headers={"Authorization": "Bearer very-secret-token"})).status_code == 200
    assert "very-secret-token" not in caplog.text


async def test_state_of_a_running_server_is_not_opened_twice(server: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="opening state of the embedded control plane"):
        await serve_api(state=tmp_path, host="127.0.0.1", port=0, clock=SteppedClock())


@pytest.mark.parametrize("body", [b"k8s\x00", b"\x0a", b"k8s\x00\x0a\xff", b"k8s\x00\x0a\x04\x0a\x02v1"])
async def test_protocol_buffer_that_cannot_be_read_is_a_bad_request(http: httpx2.AsyncClient, body: bytes) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    answer = await http.post("/api/v1/namespaces/default/configmaps", content=body, headers=headers)
    assert answer.status_code == 400
    assert "unrecognized" in answer.json()["message"]


async def test_log_is_read_from_the_log_directory_only(http: httpx2.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "web.log").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret.key").write_text("secret")
    for name, file in (("good", "web.log"), ("bad", "../secret.key"), ("absolute", str(tmp_path / "secret.key"))):
        pod = {
            "metadata": {"name": name, "annotations": {"embedded.tenantry.io/log": file}},
            "spec": {"containers": [{"name": "c", "image": "registry.example.com/c:1"}]},
        }
        assert (await http.post("/api/v1/namespaces/default/pods", json=pod)).status_code == 201
    path = "/api/v1/namespaces/default/pods"
    assert (await http.get(f"{path}/good/log")).text == "one\ntwo\nthree\n"
    assert (await http.get(f"{path}/good/log", params={"tailLines": "1"})).text == "three\n"
    for name in ("bad", "absolute"):
        answer = await http.get(f"{path}/{name}/log")
        assert answer.status_code == 400
        assert "secret" not in answer.text


async def test_log_is_followed_while_the_pod_runs(http: httpx2.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    log = tmp_path / "pods" / "web.log"
    log.write_text("one\n")
    pod = {
        "metadata": {"name": "web", "annotations": {"embedded.tenantry.io/log": "web.log"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/c:1"}]},
    }
    path = "/api/v1/namespaces/default/pods"
    await http.post(path, json=pod)
    async with http.stream("GET", f"{path}/web/log", params={"follow": "true"}) as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "one"
        with log.open("a") as output:
            output.write("two\n")
        assert await anext(lines) == "two"
        await http.delete(f"{path}/web")
        assert [line async for line in lines] == []


async def test_error_of_the_server_is_a_status_without_internals(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("internal detail")

    monkeypatch.setattr("provisioner.embedded.apiserver.collection.Collection.create", broken)
    answer = await http.post("/api/v1/namespaces/default/configmaps", json=config_map("a"))
    assert answer.status_code == 500
    assert answer.json()["reason"] == "InternalError"
    assert "internal detail" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/kubernetes",
        "/kubernetes/project",
        "/kubernetes/project/a/virtualcluster",
        "/api/v1/a/b/c/d",
        "/apis//v1/x",
        "/x",
    ],
)
async def test_odd_paths_are_not_found(http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404
    assert answer.json()["kind"] == "Status"


async def test_server_without_passwords_stays_on_loopback(tmp_path: Path, clock: SteppedClock) -> None:
    with pytest.raises(RejectedError, match="stays on loopback"):
        await serve_api(state=tmp_path, host="0.0.0.0", port=0, clock=clock)


@pytest.mark.parametrize(
    "body",
    [
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
            for before, name in zip("abcdef", "bcdefg", strict=True)
        ),
        "a: &a\n  b: *a\n",
    ],
    ids=["unfolding", "endless"],
)
async def test_yaml_that_unfolds_without_measure_is_refused(http: httpx2.AsyncClient, body: str) -> None:
    headers = {"Content-Type": "application/yaml"}
    answer = await http.post("/api/v1/namespaces/default/configmaps", content=body, headers=headers)
    assert answer.status_code == 400


async def test_body_nested_without_measure_is_refused(http: httpx2.AsyncClient) -> None:
    for depth in (250, 900, 5_000):
        nested = '{"a":' * depth + "1" + "}" * depth
        body = '{"metadata":{"name":"a"},"spec":' + nested + "}"
        path = "/apis/keda.sh/v1alpha1/namespaces/default/triggerauthentications"
        answer = await http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
    assert (await http.get("/apis/keda.sh/v1alpha1/triggerauthentications")).json()["items"] == []


async def test_encoded_names_are_understood(http: httpx2.AsyncClient) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert (await http.post(path, json={"metadata": {"name": "system:reader"}})).status_code == 201
    assert (await http.get(f"{path}/system%3Areader")).status_code == 200
