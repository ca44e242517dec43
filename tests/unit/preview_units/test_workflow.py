"""The workflow that ships: what it may do, and that its steps do it. Programs of the runner are played by stand-ins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.catalog.pack import pack_root
from provisioner.preview.markdown import MARKER

FILE = pack_root() / ".github" / "workflows" / "preview.yml"
GH = """#!/bin/bash
echo "$@" >> "$CALLS"
case "$*" in
  *--jq*) cat "$EXISTING" ;;
  *--input*) cat "${@: -1}" > "$CALLS.body" ;;
esac
"""
TENANTRY = """#!/bin/sh
echo "$@" >> "$CALLS"
printf '<!-- tenantry-preview -->\\n## Preview\\n'
exit 4
"""


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    """The workflow's file."""
    if not FILE.is_file():
        pytest.skip("the pack is installed, not checked out")
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text())
    return found


def step(workflow: dict[str, Any], job: str, name: str) -> str:
    """The script of a step."""
    [found] = [step["run"] for step in workflow["jobs"][job]["steps"] if step.get("name") == name]
    return str(found)


def run(script: str, folder: Path, programs: dict[str, str], **variables: str) -> int:
    """Run a step as the runner does, with programs of the test's own; its exit code."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    for name, text in programs.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    environment = {"PATH": f"{place}:{os.environ['PATH']}", "CALLS": str(folder / "calls"), **variables}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment, check=False
    ).returncode


def test_only_the_job_that_runs_nothing_of_the_pull_request_may_write(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {
        "preview": {"contents": "read"},
        "comment": {"pull-requests": "write"},
    }
    used = [step["uses"].partition("@")[0] for step in workflow["jobs"]["comment"]["steps"] if "uses" in step]
    assert used == ["actions/download-artifact"]


def test_forks_get_neither_secrets_nor_a_token_that_writes(workflow: dict[str, Any]) -> None:
    assert list(workflow["on" if "on" in workflow else True]) == ["pull_request"]  # type: ignore[index]
    assert "secrets." not in FILE.read_text()
    assert "head.repo.full_name == github.repository" in workflow["jobs"]["comment"]["if"]


def test_every_action_is_pinned_and_no_value_of_a_pull_request_stands_in_a_script(workflow: dict[str, Any]) -> None:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert not any("${{" in step.get("run", "") for step in steps)


def test_report_goes_to_the_summary_and_in_a_file_to_the_next_job_and_the_status_is_kept(
    workflow: dict[str, Any], tmp_path: Path
) -> None:
    output, summary = tmp_path / "output", tmp_path / "summary"
    script = step(workflow, "preview", "Preview")
    status = run(script, tmp_path, {"tenantry": TENANTRY}, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary))
    assert status == 4
    assert summary.read_text() == f"{MARKER}\n## Preview\n"
    assert output.read_text() == "reported=true\n"
    [sent] = [step for step in workflow["jobs"]["preview"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert (tmp_path / sent["with"]["path"]).read_text() == summary.read_text()
    assert "--base HEAD^1 --head HEAD" in (tmp_path / "calls").read_text()


def test_preview_that_ends_without_a_report_makes_no_comment(workflow: dict[str, Any], tmp_path: Path) -> None:
    script, output = step(workflow, "preview", "Preview"), tmp_path / "output"
    places = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    assert run(script, tmp_path, {"tenantry": "#!/bin/sh\nexit 1\n"}, **places) == 1
    assert not output.exists()
    assert "needs.preview.outputs.reported" in workflow["jobs"]["comment"]["if"]


@pytest.mark.parametrize(("existing", "method"), [("", "POST"), ("7\n", "PATCH")])
def test_one_comment_is_made_and_then_updated_in_place(
    workflow: dict[str, Any], tmp_path: Path, existing: str, method: str
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("needs jq, which the runner has")
    (tmp_path / "existing").write_text(existing)
    comments = {"PULL_REQUEST": "repos/acme/pack/issues/3/comments", "COMMENTS": "repos/acme/pack/issues/comments"}
    script = step(workflow, "comment", "Comment")
    (tmp_path / "report.md").write_text(f'{MARKER}\n"`$(x)`' + "→" * 60_000)
    status = run(script, tmp_path, {"gh": GH}, EXISTING=str(tmp_path / "existing"), **comments)
    assert status == 0
    asked, written = (tmp_path / "calls").read_text().splitlines()
    assert MARKER in asked
    place = "repos/acme/pack/issues/comments/7" if existing else comments["PULL_REQUEST"]
    assert f"--method {method} {place} " in written
    body = json.loads((tmp_path / "calls.body").read_text())["body"]
    assert body == (tmp_path / "report.md").read_text()
