"""Commands about tenants, teams, projects, keys, operations, usage, orphans and the audit log against the real API."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from provisioner.cli.main import main
from provisioner.cli.moments import parse_moment
from provisioner.domain.errors import RejectedError
from provisioner.domain.operation import OperationState
from provisioner.domain.orphan import Orphan
from tests.store.examples import NOON
from tests.unit.cli.sight import Sight
from tests.unit.served import Served


@pytest.fixture
def sight(capsys: pytest.CaptureFixture[str]) -> Sight:
    return Sight(capsys)


def test_teams_are_made_renamed_and_deleted(acme: str, sight: Sight) -> None:
    made = sight.json("team", "create", "acme/research", "--display-name", "Research")
    assert made == sight.json("team", "show", "acme/research")
    sight.told("team", "rename", "acme/research", "Research and development")
    lines = sight.told("team", "list", "--tenant", "acme").splitlines()
    assert lines[0].split() == ["TEAM", "DISPLAY", "NAME", "CREATED"]
    assert lines[1].startswith("acme/research  Research and development  ")
    assert main(["team", "delete", "acme/research"]) == 0
    assert sight.json("team", "list") == []
    for odd in ("research", "acme/", "/research", "a/b/c"):
        assert "not tenant/name" in sight.refused("team", "show", odd)


def test_an_empty_list_says_how_one_is_made_and_an_unknown_tenant_is_refused(acme: str, sight: Sight) -> None:
    for noun in ("endpoint", "key", "team"):
        assert len(sight.told(noun, "list", "--tenant", "acme").splitlines()) == 1
        assert main([noun, "list", "--tenant", "acme"]) == 0
        assert f"`tenantry {noun} create" in sight.read().err
        assert "there is none named: nobody" in sight.refused(noun, "list", "--tenant", "nobody")


def test_projects_are_shown_with_quotas_and_node_types(acme: str, sight: Sight) -> None:
    project = sight.json("project", "list", "--tenant", "acme")[0]
    assert sight.json("project", "show", project["name"]) == project
    assert project["name"] in sight.told("project", "list")


def test_a_tenant_is_shown_and_changed_on_condition(acme: str, served: Served, sight: Sight) -> None:
    shown = sight.json("tenant", "show", "acme")
    assert shown["etag"] in sight.told("tenant", "show", "acme")
    assert "it was changed since" in sight.refused("tenant", "update", "acme", "--if-match", '"old"')
    line = ["tenant", "update", "acme", "--tier", "dedicated", "--display-name", "Acme Inc."]
    asked = sight.json(*line, "--if-match", shown["etag"])
    assert (asked["verb"], asked["subject"]) == ("tenant.update", "acme")
    assert sight.json("tenant", "show", "acme")["displayName"] == "Acme Inc."


def test_a_tenant_is_off_boarded(acme: str, sight: Sight) -> None:
    assert sight.json("tenant", "list")[0]["name"] == "acme"
    assert sight.json("tenant", "offboard", "acme")["verb"] == "tenant.offboard"
    assert "none named: nobody" in sight.refused("tenant", "offboard", "nobody")


def test_keys_of_every_role_are_made_with_fewer_scopes(acme: str, sight: Sight) -> None:
    viewer = sight.json("key", "create", "--role", "viewer", "--name", "dashboard", "--idempotency-key", "once")
    assert (viewer["key"]["role"], viewer["key"]["tenant"]) == ("viewer", None)
    again = sight.json("key", "create", "--role", "viewer", "--name", "dashboard", "--idempotency-key", "once")
    assert (again["secret"], again["key"]) == (None, viewer["key"])
    line = ["key", "create", "acme", "--role", "operator", "--scope", "endpoints:read", "--expires-at", "2099-01-01"]
    made = sight.json(*line)["key"]
    assert (made["scopes"], made["expiresAt"]) == (["endpoints:read"], "2099-01-01T00:00:00Z")
    bounded = sight.json("key", "create", "acme", "--rpm", "60", "--tpm", "9000")["key"]
    assert bounded["allowance"] == {"requestsPerMinute": 60, "tokensPerMinute": 9000}
    assert "a customer's key needs one" in sight.refused("key", "create")
    assert sight.json("key", "revoke", made["id"])["revokedAt"]
    listed = sight.told("key", "list")
    assert made["id"] in listed and "  60   9000" in listed


def test_an_operation_is_listed_shown_and_cancelled(served: Served, sight: Sight) -> None:
    asked = sight.json("tenant", "create", "acme", "--tier", "dedicated")
    assert sight.json("operation", "show", asked["id"])["state"] == "pending"
    assert [one["id"] for one in sight.json("operation", "list", "--tenant", "acme")] == [asked["id"]]
    soon = threading.Timer(0.2, served.finish, [OperationState.CANCELLED])
    soon.start()
    cancelled = sight.json("operation", "cancel", asked["id"], "--wait", "--timeout", "20s")
    soon.join()
    assert (cancelled["id"], cancelled["state"]) == (asked["id"], "cancelled")


def test_the_audit_log_is_filtered_and_exported(acme: str, served: Served, sight: Sight) -> None:
    """Ledger: DAY-09"""
    served.clock.advance(60)
    sight.told("team", "create", "acme/research")
    served.clock.advance(60)
    events = sight.json("audit", "list")
    assert [event["action"] for event in events][:1] == ["team.create"]
    since = (NOON + timedelta(seconds=30)).isoformat()
    assert sight.json("audit", "list", "--since", since) == events[:1]
    assert sight.json("audit", "list", "--until", since) == events[1:]
    assert sight.json("audit", "list", "--action", "team.create", "--tenant", "acme") == events[:1]
    assert sight.json("audit", "list", "--actor", "nobody") == sight.json("audit", "list", "--tenant", "other") == []
    assert main(["audit", "list", "--limit", "1"]) == 0
    told = sight.read()
    assert "team.create" in told.out
    assert "these are the newest 1" in told.err
    exported = [json.loads(line) for line in sight.told("audit", "export").splitlines()]
    assert exported == events[::-1]


def test_a_posture_is_compared_with_the_one_that_was_reviewed(
    acme: str, served: Served, sight: Sight, tmp_path: Path
) -> None:
    """Ledger: DAY-09"""
    reviewed = tmp_path / "posture.json"
    reviewed.write_text(sight.told("audit", "posture", "-o", "json"))
    assert {fact["area"] for fact in json.loads(reviewed.read_text())["facts"]} == {"installation", "key"}
    table = sight.told("audit", "posture").splitlines()
    assert table[0].split() == ["AREA", "NAME", "CONCERN", "VALUE"] and max(map(len, table)) <= 120
    assert any("never expires" in line for line in table)
    served.clock.advance(60)
    assert sight.told("audit", "posture", "--baseline", str(reviewed)) == ""
    made = sight.json("key", "create", "--role", "admin", "--name", "mallory")["key"]
    assert main(["audit", "posture", "--baseline", str(reviewed)]) == 3
    told = sight.read().out
    assert told.startswith(f"+ key {made['id']}: name mallory; role admin; tenant every; ")
    assert told.endswith("expires never (concern: never expires)\n")
    assert main(["audit", "posture", "--baseline", str(reviewed), "-o", "json"]) == 3
    (difference,) = json.loads(sight.read().out)
    assert (difference["before"], difference["after"]["name"]) == (None, made["id"])
    sight.told("key", "revoke", made["id"])
    assert sight.told("audit", "posture", "--baseline", str(reviewed)) == ""
    reviewed.write_text("{}")
    assert "it is no posture" in sight.refused("audit", "posture", "--baseline", str(reviewed))
    assert "No such file" in sight.refused("audit", "posture", "--baseline", str(tmp_path / "none"))


def test_usage_has_the_columns_that_were_asked_for(acme: str, sight: Sight) -> None:
    assert sight.told("usage", "--group", "tenant,hour", "--since", "2026-02-28").split()[:2] == [
        "REQUESTS",
        "FAILURES",
    ]
    assert sight.json("usage") == []
    assert "did you mean `tenant`" in sight.refused("usage", "--group", "tenat")


def test_orphans_are_listed_with_the_way_to_remove_them(acme: str, served: Served, sight: Sight) -> None:
    assert sight.json("orphan", "list") == []
    left = Orphan(place="delivery", kind="branch", name="ep-1", endpoint="ep-1", tenant="acme")
    served.run(served.services.store.orphans.replace([left]))
    assert main(["orphan", "list", "--tenant", "acme"]) == 0
    told = sight.read()
    assert told.out.splitlines()[1].split() == ["ep-1", "acme", "branch", "ep-1", "delivery"]
    assert "tenantry endpoint reclaim" in told.err
    assert sight.json("endpoint", "reclaim", "ep-1")["verb"] == "endpoint.reclaim"


def test_help_imports_no_noun_no_client_and_no_model() -> None:
    program = (
        "import sys; from provisioner.cli.main import NOUNS, main; main(['--help']); "
        "heavy = {'pydantic', 'httpx2', 'provisioner.client', *(f'provisioner.cli.{noun}' for noun in NOUNS)}; "
        "print(*heavy & set(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.split()) == (0, [])


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("24h", NOW - timedelta(hours=24)),
        ("90m", NOW - timedelta(minutes=90)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T08:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31T08:00+02:00", datetime(2026, 1, 31, 6, tzinfo=UTC)),
    ],
)
def test_moments_are_dates_or_how_long_ago(text: str, moment: datetime) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "24", "1w", "2026-13-01", "-1h", "99999d" * 9])
def test_other_moments_are_refused(text: str) -> None:
    with pytest.raises(RejectedError, match="reading a moment"):
        parse_moment(text, NOW)
