"""Commands about external fallback against the real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provisioner.cli.main import main
from provisioner.domain.usage import Outcome
from provisioner.metering.batch import count_batch
from tests.store.examples import NOON
from tests.unit.api.conftest import REQUEST
from tests.unit.api.test_fallbacks import PARTNER
from tests.unit.catalog.packs import site_with
from tests.unit.cli.sight import Sight
from tests.unit.metering.test_sums import record
from tests.unit.served import Served


@pytest.fixture(autouse=True)
def policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The site of the API has a policy."""
    monkeypatch.setattr("tests.unit.served.small_site", lambda: site_with(fallbacks=(PARTNER,)))


@pytest.fixture
def sight(capsys: pytest.CaptureFixture[str]) -> Sight:
    return Sight(capsys)


@pytest.fixture
def chat(served: Served, acme: str, tmp_path: Path) -> str:
    """The id of endpoint acme/chat."""
    file = tmp_path / "REQUEST.yaml"
    file.write_text(json.dumps(REQUEST))
    assert main(["endpoint", "create", "-f", str(file)]) == 0
    served.make_endpoint()
    found = served.run(served.services.store.endpoints.find("acme", "chat"))
    assert found
    return found.id


def test_a_fallback_is_chosen_shown_and_removed(chat: str, sight: Sight) -> None:
    """FAL-05: nothing is acknowledged by choosing alone."""
    chosen = sight.json("fallback", "choose", "acme/chat", "partner")
    assert (chosen["endpoint"], chosen["enabled"], chosen["acknowledgedBy"]) == (chat, True, "")
    chosen = sight.json("fallback", "choose", chat, "partner", "--disable", "--acknowledge-privacy")
    assert (chosen["enabled"], chosen["acknowledgedBy"]) == (False, "admin:bootstrap")
    assert sight.json("fallback", "show", "acme/chat") == chosen
    assert sight.json("fallback", "list", "--tenant", "acme") == [chosen]
    assert "partner" in sight.told("fallback", "list")
    assert "did you mean `partner`?" in sight.refused("fallback", "choose", "acme/chat", "partnr")
    assert sight.told("fallback", "remove", "acme/chat") == ""
    assert "none is chosen" in sight.refused("fallback", "show", "acme/chat")


def test_what_became_of_requests_is_listed(served: Served, chat: str, sight: Sight) -> None:
    """FAL-10."""
    told = [
        record(endpoint=chat, request_id="req-1", target="partner"),
        record(endpoint=chat, request_id="req-2", denial="budget_exhausted", status=429, outcome=Outcome.SHED),
    ]
    served.run(count_batch("b-1", told, served.services.store.usage, now=NOON))
    listed = sight.json("fallback", "requests", "acme/chat")
    assert [(one["requestId"], one["target"], one["denial"]) for one in listed] == [
        ("req-2", "", "budget_exhausted"),
        ("req-1", "partner", ""),
    ]
    assert "budget_exhausted" in sight.told("fallback", "requests", "acme/chat", "--limit", "1")


def test_a_tenants_priority_key_is_printed_alone_and_the_audit_log_tells_who_read_it(acme: str, sight: Sight) -> None:
    """Ledger: ADM-14, SEC-03."""
    key = sight.told("tenant", "priority-key", "acme")
    assert key == sight.told("tenant", "priority-key", "acme")
    assert len(key.strip()) == 64
    assert "none named: nobody" in sight.refused("tenant", "priority-key", "nobody")
    events = sight.json("audit", "list", "--action", "tenant.priority-key")
    assert [(event["subject"], event["actor"]) for event in events] == [("acme", "admin:bootstrap")] * 2
    assert key.strip() not in str(events)
