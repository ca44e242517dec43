"""Endpoints over the command line, REST and the gateway, on real processes with a real model."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

import httpx2
import pytest

from tests.e2e.conftest import Installation

pytestmark = pytest.mark.timeout(240)

REQUEST = """\
name: chat
tenant: acme
model: gemma-3-270m
region: local
tier: dedicated
scaling: {minReplicas: 1, maxReplicas: 1}
serving: {maxModelLen: 512}
"""


@pytest.fixture(scope="module")
def secret(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tenant with an endpoint `acme/chat` that is Ready, and a key of its."""
    file = tmp_path_factory.mktemp("request") / "REQUEST.yaml"
    file.write_text(REQUEST)
    installation.data("tenant", "create", "acme", "--tier", "dedicated", "--wait")
    installation.data("endpoint", "create", "-f", str(file), "--wait", "--timeout", "2m")
    return str(json.loads(installation.data("key", "create", "acme", "-o", "json"))["secret"])


def endpoint(installation: Installation) -> dict[str, object]:
    found: dict[str, object] = json.loads(installation.data("endpoint", "show", "acme/chat", "-o", "json"))
    return found


def ask(url: str, key: str | None, *, model: str = "chat") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    return httpx2.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)


def test_one_key_works_over_http_and_on_the_command_line(installation: Installation, secret: str) -> None:
    """Ledger: SEC-08, CLI-02"""
    url = str(endpoint(installation)["url"])
    answer = ask(url, secret)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"]
    chat = installation.run("endpoint", "chat", "acme/chat", "Hello", "--max-tokens", "4", TENANTRY_API_KEY=secret)
    assert chat.returncode == 0, chat.stderr
    assert chat.stdout.strip()


def test_what_the_processes_write_is_for_their_own_user(installation: Installation, secret: str) -> None:
    ours = installation.state / "processes"  # whose files are made by the process that runs the tests
    modes = {}
    for path in installation.state.rglob("*"):
        with suppress(FileNotFoundError):  # what is written for a moment goes meanwhile
            modes[path] = path.stat().st_mode
    written = [path for path, mode in modes.items() if S_ISREG(mode) and ours not in path.parents]
    assert {path.name for path in written} >= {"tenantry.sqlite", "apiserver.sqlite", "site.yaml"}
    assert [path for path in written if modes[path] & 0o077] == []


@pytest.mark.parametrize("key", [None, "", "tnt-wrong", "Bearer"])
def test_strangers_are_refused_from_outside(installation: Installation, secret: str, key: str | None) -> None:
    """Ledger: SEC-05"""
    answer = ask(str(endpoint(installation)["url"]), key)
    assert answer.status_code == 401
    assert answer.json()["error"]["type"]
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_endpoint_shows_status_url_model_and_the_ids_behind_it(installation: Installation, secret: str) -> None:
    """Ledger: LIF-03, ROU-03, CLI-06"""
    shown = endpoint(installation)
    assert shown["phase"] == "Ready"
    assert {stage["state"] for stage in shown["stages"]} == {"done"}  # type: ignore[attr-defined]
    assert shown["model"]["id"] == "gemma-3-270m"  # type: ignore[index]
    ids = shown["identifiers"]
    assert all(ids[name] for name in ("project", "tenantCluster", "templateVersion", "nodeType", "nodeClaims", "route"))  # type: ignore[index]


def test_a_wrong_key_on_the_operators_api_reaches_nothing(installation: Installation, secret: str) -> None:
    """A customer's key opens no operator route, and no key none at all.

    Ledger: LIF-11
    """
    url = f"{installation.laptop.settings.url}/v1/endpoints"
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {secret}"}, 403)):
        answer = httpx2.post(url, json={}, headers={"Idempotency-Key": "k", **headers}, trust_env=False)
        assert answer.status_code == status
        assert "acme" not in answer.text


def test_serving_goes_on_while_the_control_plane_is_down(installation: Installation, secret: str) -> None:
    """The provisioner is killed, requests go on; it comes back and knows everything.

    Ledger: LIF-12, ROU-07
    """
    url = str(endpoint(installation)["url"])
    laptop = installation.laptop
    serve = laptop.child("serve")
    assert serve.pid is not None
    os.killpg(serve.pid, signal.SIGKILL)
    assert [ask(url, secret).status_code for _ in range(3)] == [200, 200, 200]
    laptop.restart("serve")
    assert endpoint(installation)["phase"] == "Ready"


def test_a_vllm_endpoint_answers_through_the_gateway(
    installation: Installation, secret: str, request_file: Path
) -> None:
    """A model id alone is enough; what cannot run here is played behind vLLM's own arguments.

    Ledger: RUN-01, RUN-09
    """
    request_file.write_text(
        REQUEST.replace("gemma-3-270m", "Qwen2-VL-2B-Instruct")
        .replace("name: chat", "name: vision")
        .replace("serving: {maxModelLen: 512}\n", "")
    )
    installation.data("endpoint", "create", "-f", str(request_file), "--wait", "--timeout", "2m")
    shown = json.loads(installation.data("endpoint", "show", "acme/vision", "-o", "json"))
    assert shown["model"]["runtime"] == "vllm"
    answer = ask(shown["url"], secret, model="vision")
    assert answer.status_code == 200
    assert answer.json()["model"] == "Qwen2-VL-2B-Instruct"
    gone = installation.run("endpoint", "delete", "acme/vision", "--wait")
    assert gone.returncode == 0, gone.stderr
    assert ask(shown["url"], secret, model="vision").status_code == 404


def test_a_bad_request_is_refused_with_every_finding_and_its_line(
    installation: Installation, secret: str, request_file: Path
) -> None:
    """Ledger: LIF-01, CAT-05"""
    request_file.write_text(
        REQUEST.replace("gemma-3-270m", "gemma-3-270n")
        .replace("region: local", "region: mars")
        .replace("minReplicas: 1", "minReplicas: 3")
    )
    done = installation.run("endpoint", "create", "-f", str(request_file))
    assert done.returncode == 1
    assert done.stdout == ""
    for line in ("REQUEST.yaml:3: model", "REQUEST.yaml:4: region", "REQUEST.yaml:6: scaling"):
        assert line in done.stderr
    assert "did you mean `gemma-3-270m`?" in done.stderr


def test_a_name_that_is_taken_is_refused(installation: Installation, secret: str, request_file: Path) -> None:
    request_file.write_text(REQUEST)
    done = installation.run("endpoint", "create", "-f", str(request_file))
    assert done.returncode == 1
    assert "chat" in done.stderr


def test_a_second_api_on_the_same_address_says_what_is_in_the_way(installation: Installation) -> None:
    done = installation.run("serve")
    assert done.returncode == 1
    assert "Address already in use" in done.stderr
    assert "hint: stop what listens there, or name another address of this machine" in done.stderr
    assert "Traceback" not in done.stderr
