"""The published OpenAPI document is true: schemathesis asks a live server for everything in it, and for what is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.contract.live_api import CALLERS, LiveApi, headers_of, live_api

EXAMPLES = int(os.environ.get("TENANTRY_EXAMPLES", "2"))
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
