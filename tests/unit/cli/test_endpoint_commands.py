"""Commands about endpoints against the real API on a socket."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from provisioner.cli.assignments import assigned
from provisioner.cli.demo import ensure_endpoint
from provisioner.cli.main import main
from provisioner.cli.references import offered_references
from provisioner.cli.session import call_api
from provisioner.domain.endpoint import Endpoint, Phase
from provisioner.domain.errors import RejectedError
from provisioner.domain.ids import EndpointId
from provisioner.domain.operation import OperationState
from provisioner.settings import read_settings
from tests.unit.api.conftest import REQUEST, idempotent
from tests.unit.api.test_endpoints_changes import become
from tests.unit.cli.sight import Sight
from tests.unit.served import Served


@pytest.fixture
def sight(capsys: pytest.CaptureFixture[str]) -> Sight:
    return Sight(capsys)


@pytest.fixture
def chat(acme: str, served: Served, tmp_path: Path, sight: Sight) -> str:
    """The id of endpoint acme/chat, made by a command, which is Ready."""
    (tmp_path / "request.yaml").write_text(json.dumps(REQUEST))
    subject = sight.json("endpoint", "create", "-f", str(tmp_path / "request.yaml"))["subject"]
    served.make_endpoint()
    return str(subject)


def row_of(endpoint: str, served: Served) -> Endpoint:
    return served.run(served.services.store.endpoints.get(EndpointId(endpoint)))


def test_a_command_and_rest_store_the_same(acme: str, served: Served, tmp_path: Path, sight: Sight) -> None:
    """Ledger: CLI-01"""
    (tmp_path / "request.yaml").write_text(
        "name: first\ntenant: acme\nmodel: tiny\nregion: local\ntier: dedicated\n"
        "scaling: {minReplicas: 1, maxReplicas: 2}\nserving: {contextSize: 1024}\n"
    )
    by_command = sight.json("endpoint", "create", "-f", str(tmp_path / "request.yaml"))["subject"]
    served.make_endpoint()
    answer = httpx2.post(
        f"{served.url}/v1/endpoints",
        json=REQUEST | {"name": "second", "serving": {"contextSize": 1024}},
        headers=idempotent("second") | {"Authorization": f"Bearer {served.key}"},
    )
    served.make_endpoint()
    stored = [row_of(endpoint, served) for endpoint in (by_command, answer.json()["subject"])]
    first, second = (
        re.sub(rf"{row.id}|{row.id.removeprefix('ep-')}|\b{row.name}\b", "…", repr((row.request, row.plan)))
        for row in stored
    )
    assert first == second


@pytest.mark.parametrize(
    ("line", "verb"),
    [
        (["update", "acme/chat", "--set", "serving.contextSize=1024", "--set", "scaling.maxReplicas=3"], "update"),
        (["update", "acme/chat", "--model", "tiny"], "update"),
        (["scale", "acme/chat", "--min", "2", "--max", "3"], "scale"),
        (["warm", "acme/chat"], "warm"),
        (["restart", "acme/chat"], "restart"),
        (["drain", "acme/chat", "--deadline", "5"], "drain"),
        (["delete", "acme/chat"], "delete"),
    ],
)
def test_every_verb_is_a_command(chat: str, sight: Sight, line: Sequence[str], verb: str) -> None:
    """Ledger: LIF-05"""
    asked = [sight.json("endpoint", *line, "--idempotency-key", "same") for _ in range(2)]
    assert [(one["verb"], one["subject"]) for one in asked] == [(f"endpoint.{verb}", chat)] * 2
    assert asked[0]["id"] == asked[1]["id"]


def test_an_endpoint_is_opened_and_shown_as_open(chat: str, sight: Sight) -> None:
    """Ledger: GW-10."""
    assert sight.json("endpoint", "show", chat)["traffic"] == {"open": False, "balance": None, "maxTokens": None}
    line = ["endpoint", "update", chat, "--set", "traffic.open=true", "--set", "traffic.balance=least-loaded"]
    assert sight.json(*line)["verb"] == "endpoint.update"
    assert sight.json("endpoint", "show", chat)["traffic"] == {
        "open": True, "balance": "least-loaded", "maxTokens": None,
    }  # fmt: skip
    assert "traffic.balance" in sight.refused("endpoint", "update", chat, "--set", "traffic.balance=random")


def test_an_update_takes_file_model_and_fields_together(chat: str, served: Served, tmp_path: Path) -> None:
    (tmp_path / "patch.yaml").write_text("model: nobody\nserving:\n  contextSize: 512\n  parallel: 4\n")
    line = ["endpoint", "update", "acme/chat", "-f", str(tmp_path / "patch.yaml"), "--set", "serving.contextSize=1024"]
    assert main([*line, "--model", "tiny"]) == 0
    change = row_of(chat, served).change
    assert change is not None
    assert change.request.serving == {"contextSize": 1024, "parallel": 4}


def test_what_is_wrong_with_a_patch_is_told_with_its_line(chat: str, tmp_path: Path, sight: Sight) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text("serving:\n  contextSize: 1024\n  paralel: 4\n")
    assert f"error: {file}:3: serving.paralel: " in sight.refused("endpoint", "update", "acme/chat", "-f", str(file))
    assert "serving.paralel" in sight.refused("endpoint", "update", "acme/chat", "--set", "serving.paralel=4")


def test_a_change_names_the_state_that_inspect_showed(chat: str, served: Served, sight: Sight) -> None:
    seen = sight.json("endpoint", "inspect", chat)
    assert {"project", "tenantCluster", "nodeType", "nodeClaims", "templateVersion", "route"} <= seen.keys()
    assert all(seen[name] for name in ("project", "tenantCluster", "nodeType", "templateVersion", "route", "etag"))
    assert sight.told("endpoint", "inspect", "acme/chat").splitlines()[0].split() == ["endpoint", chat]
    assert main(["endpoint", "warm", chat, "--if-match", seen["etag"]]) == 0
    served.finish()
    assert "it was changed since" in sight.refused("endpoint", "warm", chat, "--if-match", seen["etag"])


def test_a_rotated_key_is_shown_before_anything_is_waited_for(chat: str, served: Served, sight: Sight) -> None:
    first = sight.told("endpoint", "rotate-key", "acme/chat")
    assert "secret" in first and "replaced" not in first
    served.finish()
    assert "hint" not in sight.told("key", "create", "acme", "--endpoint", "chat", "--name", "old")
    rotated = sight.json("endpoint", "rotate-key", "acme/chat", "--overlap", "60")
    assert rotated["secret"].startswith("tnt-")
    assert "old" in [old["name"] for old in rotated["replaced"]]
    served.finish()
    shown = sight.told("endpoint", "rotate-key", "acme/chat")
    assert re.search(r"^secret +tnt-", shown, re.MULTILINE) and re.search(r"^replaced:$", shown, re.MULTILINE)
    served.finish()
    late = threading.Timer(0.2, served.finish, [OperationState.FAILED])
    late.start()
    assert main(["endpoint", "rotate-key", "acme/chat", "--wait", "--timeout", "90s"]) == 1
    late.join()
    told = sight.read()
    assert "secret" in told.out
    assert "failed" in told.err


def test_waiting_follows_the_operation_to_its_end(chat: str, served: Served, sight: Sight) -> None:
    soon = threading.Timer(0.2, served.finish)
    soon.start()
    assert sight.json("endpoint", "drain", "acme/chat", "--wait", "--timeout", "90s")["state"] == "succeeded"
    soon.join()


def test_an_endpoint_that_serves_is_not_reclaimed(chat: str, sight: Sight) -> None:
    assert "it is not given up" in sight.refused("endpoint", "reclaim", chat)
    assert "nothing is known to be left" in sight.refused("endpoint", "reclaim", "ep-none")


@pytest.mark.parametrize("line", [("shell", "acme/chat"), ("exec", "acme/chat", "--", "sh", "-c", "ls")])
def test_a_shell_is_refused_with_what_has_one(chat: str, sight: Sight, line: tuple[str, ...]) -> None:
    """Ledger: LIF-15"""
    told = sight.refused("endpoint", *line)
    assert (
        "error: opening a shell on endpoint `chat`: it is managed, and called through its API alone (`ApiOnly`)" in told
    )
    assert "hint: a shell comes with a machine of one's own, which is another product" in told


def test_a_customers_key_is_shown_the_customers_view(
    chat: str, served: Served, sight: Sight, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ledger: SEC-08 CLI-07"""
    line = ["key", "create", "acme", "--scope", "endpoints:read", "--scope", "endpoints:write", "--name", "ci"]
    secret = sight.json(*line)["secret"]
    monkeypatch.setenv("TENANTRY_API_KEY", secret)
    shown = sight.json("endpoint", "show", "acme/chat")
    assert (shown["phase"], shown["model"]) == ("Ready", "chat")
    assert "dedicated" not in json.dumps(shown)
    assert sight.told("endpoint", "list").splitlines()[1].split()[:4] == [chat, "chat", "chat", "Ready"]
    assert offered_references("") == [chat]
    assert "hint: TENANTRY_API_KEY may be a customer's key; unset" in sight.refused("tenant", "list")
    assert "TENANTRY_API_KEY" not in sight.refused("endpoint", "shell", "acme/chat")
    (tmp_path / "second.json").write_text(json.dumps(REQUEST | {"name": "second"}))
    soon = threading.Timer(0.2, served.make_endpoint)
    soon.start()
    made = sight.json("endpoint", "create", "-f", str(tmp_path / "second.json"), "--wait", "--timeout", "90s")
    soon.join()
    assert (made["name"], made["phase"]) == ("second", "Ready")
    assert sight.json("endpoint", "delete", made["id"])["phase"] == "Deleting"


def test_a_demo_brings_back_what_was_drained(chat: str, served: Served, sight: Sight) -> None:
    """Its endpoint is there from an earlier run, in which somebody tried that."""
    sight.json("endpoint", "drain", "acme/chat")
    served.run(become(chat, Phase.DRAINED, served.services, served.clock))
    soon = threading.Timer(0.2, served.make_endpoint)
    soon.start()
    endpoint, loading_seconds = call_api(read_settings(), ensure_endpoint)
    soon.join()
    assert (endpoint.id, endpoint.phase, loading_seconds) == (chat, "Ready", 0.0)
    assert [line.split()[1] for line in sight.told("operation", "list").splitlines()[1:3]] == [
        "endpoint.warm",
        "endpoint.drain",
    ]


def test_a_key_that_cannot_be_one_is_never_shown(served: Served, sight: Sight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANTRY_API_KEY", "same\ntnt-secret")
    told = sight.refused("endpoint", "list")
    assert "reading TENANTRY_API_KEY" in told
    assert "tnt-secret" not in told


def test_references_are_completed_from_what_there_is(
    chat: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered_references("") == offered_references("acme/c") == ["acme/chat"]
    assert offered_references("other/") == offered_references("acme/x") == []
    monkeypatch.setenv("TENANTRY_URL", "http://127.0.0.1:1")
    assert offered_references("") == []


def test_a_watch_prints_what_happens_until_it_is_interrupted(
    chat: str, sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def reader(line: str, **_: Any) -> None:
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", reader)
    assert main(["endpoint", "watch", "--tenant", "acme", "-o", "json"]) == 130
    changed, synced = (json.loads(line) for line in lines)
    assert (changed["what"], changed["endpoint"]["id"]) == ("changed", chat)
    assert synced["what"] == "synced"
    assert int(synced["position"]) > 0


def test_assigned_values_are_yaml_and_lie_over_the_file() -> None:
    patch = {"serving": {"a": 1, "b": 2}, "model": "tiny"}
    wanted = ["serving.a=8192", "serving.c=null", "serving.d=[1, x]", "model=big", "team=", "x.y=a=b"]
    assert assigned(patch, wanted) == {
        "serving": {"a": 8192, "b": 2, "c": None, "d": [1, "x"]},
        "model": "big",
        "team": None,
        "x": {"y": "a=b"},
    }
    assert patch == {"serving": {"a": 1, "b": 2}, "model": "tiny"}


@pytest.mark.parametrize("assignment", ["serving", "=1", "a..b=1", ".a=1", "model.x=1", "a=[1", "a=yes"])
def test_what_is_no_assignment_is_refused(assignment: str) -> None:
    with pytest.raises(RejectedError):
        assigned({"model": "tiny"}, [assignment])
