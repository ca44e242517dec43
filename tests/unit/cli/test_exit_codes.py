"""What a command line ends with, and what it says: exit codes, `error:` and `hint:` lines, data apart from talk."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from provisioner.cli.main import exit_code, main
from provisioner.cli.operation import finish, operation_error, parse_duration
from provisioner.cli.output import Format, print_fields, print_table
from provisioner.domain.errors import (
    ConflictError,
    InsufficientCapacityError,
    InvariantError,
    NotFoundError,
    RejectedError,
    RetryableError,
    TenantryError,
)
from provisioner.wire.operation import OperationView

COMMANDS = ("demo", "embedded", "serve", "gateway", "plan", "tier", "model", "tenant", "endpoint", "operation", "key")


@pytest.fixture(autouse=True)
def empty_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANTRY_STATE", str(tmp_path))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RejectedError("x"), 1),
        (NotFoundError("x"), 1),
        (ConflictError("x"), 1),
        (InvariantError("x"), 2),
        (RetryableError("x"), 5),
        (InsufficientCapacityError("x"), 5),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: TenantryError, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("reason", "code"),
    [("QuotaExceeded", 1), ("Superseded", 1), ("Invariant", 2), ("DeadlineExceeded", 5), ("AttemptsExhausted", 5)],
)
def test_an_operation_that_failed_has_the_exit_code_of_its_reason(reason: str, code: int) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    failed = OperationView(
        id="op-a",
        verb="endpoint.create",
        tenant="acme",
        subject="ep-a",
        state="failed",
        done=True,
        reason=reason,
        attempts=1,
        created_at=now,
        updated_at=now,
    )
    assert exit_code(operation_error(failed)) == code


def test_a_bad_timeout_stops_the_command_before_anything_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("provisioner.cli.endpoint.send", lambda _: pytest.fail("the API was called"))
    assert main(["endpoint", "delete", "acme/chat", "--wait", "--timeout", "10x"]) == 1
    assert "reading --timeout" in capsys.readouterr().err


@pytest.mark.parametrize("line", [["nonsense"], ["tier"], ["tier", "show"], ["endpoint", "create"], ["plan", "-x"]])
def test_a_usage_error_is_the_requests_fault(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    assert capsys.readouterr().out == ""


def test_help_is_data_and_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in out


def test_without_an_installation_the_error_shows_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["endpoint", "list"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: reading the operator key")
    assert "hint: start a laptop installation with `tenantry demo`" in captured.err


@pytest.mark.parametrize("line", [["serve"], ["tier", "publish"]])
def test_without_a_site_the_error_names_the_file_and_shows_the_way(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 1
    err = capsys.readouterr().err
    assert f"no such file: {tmp_path / 'site.yaml'}" in err
    assert "TENANTRY_SITE" in err


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tier", "show", "dedicatd"]) == 1
    assert "did you mean `dedicated`?" in capsys.readouterr().err


def test_a_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "state"), [("a-long-name", "Ready"), ("b", None)])
    assert capsys.readouterr().out == "NAME         STATE\na-long-name  Ready\nb\n"


@pytest.mark.parametrize("columns", ["40", "120"])
def test_a_table_on_a_terminal_folds_prose_and_keeps_ids_whole(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    row = ("op-3x87ftq6bvy6wzmb", "Ready", "2026-11-30T20:36:04Z", "the model is being loaded, " * 9)
    print_table(("operation", "state", "at", "message"), [row])
    print_table(("operation", "state", "at"), [row[:3]])
    lines = capsys.readouterr().out.splitlines()
    assert sum(row[0] in line and row[2] in line for line in lines) == 2
    assert any(line.startswith(" ") for line in lines) == (columns == "120"), "prose is folded where there is room"


def test_the_items_of_a_thing_are_a_table_of_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        {"name": "route", "message": "a long one", "state": "error", "reason": "", "elapsedSeconds": 13.56945},
        {"name": "loading", "message": "", "state": "pending", "reason": "", "elapsedSeconds": None},
    ]
    print_fields({"id": "ep-a", "stages": stages})
    assert capsys.readouterr().out.splitlines() == [
        "id      ep-a",
        "stages:",
        "  NAME     STATE    ELAPSED SECONDS  MESSAGE",
        "  route    error    13.6             a long one",
        "  loading  pending",
    ]


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200)])
def test_durations_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "-1s", "1d", "1.5h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(RejectedError, match="--timeout"):
        parse_duration(text)


def test_a_thing_shows_moments_to_the_second_answers_as_yes_and_zero_as_a_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_fields({"createdAt": datetime(2026, 1, 2, 3, 4, 5, 6789, UTC), "isDone": True, "attempts": 0, "hint": None})
    assert capsys.readouterr().out.splitlines() == [
        "createdAt  2026-01-02T03:04:05Z",
        "isDone     yes",
        "attempts   0",
        "hint       -",
    ]


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tenantry {version('tenantry')}\n"


def finish_as(state: str, *, wait: bool) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    operation = OperationView(
        id="op-1",
        verb="endpoint.delete",
        tenant="acme",
        subject="ep-1",
        state=state,
        done=state != "running",
        created_at=moment,
        updated_at=moment,
    )
    finish(operation, wait=wait, timeout="1m", output=Format.TABLE)


@pytest.mark.parametrize(("state", "is_told"), [("running", True), ("succeeded", False)])
def test_only_an_operation_that_goes_on_can_be_followed(
    state: str, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_as(state, wait=False)
    assert ("tenantry operation wait op-1" in capsys.readouterr().err) is is_told


def test_who_stops_waiting_is_told_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("provisioner.cli.operation.ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finish_as("running", wait=True)
    assert "tenantry operation wait op-1" in capsys.readouterr().err


def test_a_version_of_kubernetes_that_is_not_known_is_no_finding_but_a_wrong_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", "--kubernetes-version", "banana", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: choosing the Kubernetes version: not supported: `banana`\nhint: supported: 1.")
