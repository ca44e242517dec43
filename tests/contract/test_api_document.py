"""The published OpenAPI document is true: schemathesis asks a live server for everything in it, and for what is not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from provisioner.wire.problem import CONTENT_TYPE, Problem
from tests.contract.live_api import CALLERS, LiveApi, headers_of, live_api

EXAMPLES = int(os.environ.get("TENANTRY_EXAMPLES", "1"))
"""Random requests of each operation and caller, beside those at every boundary of the document."""
SEED = "20"

JUDGED = """
[checks]
enabled = true

[checks.positive_data_acceptance]  # beyond the form, what a body says may make no sense here
expected-statuses = ["2xx", "401", "403", "404", "409", "412", "422", "428", "429"]

[[operations]]  # a model's id may hold a slash, so PUT here changes a model with such an id
include-path-regex = "/model-masters/.model./(export|versions)"
checks.unsupported_method.enabled = false
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    """The server of this module."""
    with live_api(tmp_path_factory.mktemp("api")) as served:
        yield served


def told(api: LiveApi, caller: str, folder: Path, *options: str, names: Mapping[str, str] | None = None) -> str:
    """What schemathesis says after it asked as the caller; empty when nothing is wrong."""
    named = "".join(f'"path.{name}" = "{value}"\n' for name, value in (names or {}).items())
    config = folder / "schemathesis.toml"
    config.write_text(f"[parameters]\n{named}\n{JUDGED}" if named else JUDGED)
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config)),
        *("run", f"{api.url}/openapi.json", "--header", f"Authorization:{headers_of(caller)['Authorization']}"),
        *("--seed", SEED, "--continue-on-failure", "--no-shrink", "--suppress-health-check", "all"),
        *("--max-examples", str(EXAMPLES), "--warnings", "off", "--no-color", *options),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_PROXY": "*"}
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/keys HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 600_000,
    ],
    ids=["no version", "TLS", "no host", "two hosts", "negative length", "headers without end"],
)
def test_bytes_that_are_no_request_are_answered_as_a_problem_too(api: LiveApi, sent: bytes) -> None:
    address = urlsplit(api.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        with suppress(ConnectionError):
            connection.sendall(sent)
        answer = HTTPResponse(connection)
        answer.begin()
        problem = Problem.model_validate_json(answer.read())
    assert (answer.status, answer.headers["Content-Type"]) == (400, CONTENT_TYPE)
    assert (problem.reason, problem.status) == ("NotHttp", 400)


@pytest.mark.timeout(600)
def test_every_boundary_of_the_document_is_one_of_the_server(api: LiveApi, tmp_path: Path) -> None:
    """Every value that the document allows is taken, every one that it refuses is refused; bodies,
    types and statuses are as written; a method that is not there is 405 and names those that are."""
    assert told(api, "admin", tmp_path, "--phases", "coverage,fuzzing") == ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("caller", CALLERS)
def test_whoever_asks_is_answered_as_the_document_says(api: LiveApi, caller: str, tmp_path: Path) -> None:
    assert told(api, caller, tmp_path, "--phases", "fuzzing") == ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("caller", ["admin", "customer"])
def test_answers_about_what_is_there_are_as_the_document_says(api: LiveApi, caller: str, tmp_path: Path) -> None:
    assert told(api, caller, tmp_path, "--phases", "fuzzing", "--mode", "positive", names=api.names) == ""
