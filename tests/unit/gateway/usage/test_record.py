"""What a record and the histograms tell of a request, and what they never do."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from provisioner.admission.usage import UsageRecordForm
from provisioner.domain.snapshot import Backend, Fallback, KeyDigest
from provisioner.domain.usage import Outcome
from provisioner.gateway.usage.measures import Measures
from provisioner.gateway.usage.record import counted_record, json_line, record_of
from provisioner.gateway.usage.tally import Tally, Tokens
from tests.gateway.stub import NOW, make_key, make_route

OUTSIDE = Backend(host="api.example.com", address="api.example.com:443", is_public=True)
FALLBACK = Fallback(policy="outside", is_enabled=True, is_acknowledged=True, target=OUTSIDE, model="their-model")


def tally(*, key: KeyDigest | None = None, path: bytes = b"/v1/chat/completions") -> Tally:
    """The notes of a request that was answered."""
    notes = Tally(NOW, 10.0, key or make_key(), path, b"req-1")
    notes.alias = "chat"
    notes.route = make_route(alias="chat")
    notes.status = 200
    return notes


def test_record_is_as_the_control_plane_takes_it() -> None:
    notes = tally(key=replace(make_key(team="red"), name="key-1"))
    notes.tokens = Tokens(1, 2, "stop")
    notes.target, notes.denial = "outside", "BudgetUsedUp"
    assert notes.route is not None
    line = json_line(counted_record(notes, notes.route, Outcome.OK, 12.5))
    told, counted = UsageRecordForm.model_validate_json(line).record(), json.loads(line)
    assert set(counted) == {field.name for field in fields(told)}
    assert counted.items() <= json.loads(json_line(record_of(notes, Outcome.OK, 12.5))).items()
    assert (told.tenant, told.endpoint, told.key, told.team) == ("acme", "ep-acme-chat", "key-1", "red")
    assert (told.prompt_tokens, told.completion_tokens, told.duration_ms) == (1, 2, 2500.0)
    assert (told.request_id, told.target, told.denial) == ("req-1", "outside", "BudgetUsedUp")


def test_what_the_control_plane_takes_for_granted_is_not_sent() -> None:
    notes = tally()
    assert notes.route is not None
    counted = counted_record(notes, notes.route, Outcome.OK, 12.5)
    assert not json.loads(json_line(counted)).keys() & {"team", "request_id", "target", "denial"}
    told = UsageRecordForm.model_validate_json(json_line(counted)).record()
    assert (told.team, told.prompt_tokens, told.target, told.denial) == (None, None, "", "")


def test_key_without_a_name_is_told_by_its_digest_and_nobody_s_as_anonymous() -> None:
    assert record_of(tally(), Outcome.OK, 11.0)["key"] == make_key().digest[:12]
    assert counted_record(tally(), make_route(alias="chat"), Outcome.OK, 11.0).key == make_key().digest
    stranger = KeyDigest(digest="", tenant="")
    told = counted_record(tally(key=stranger), make_route(alias="chat"), Outcome.OK, 11.0)
    assert (told.key, told.tenant) == ("anonymous", "acme")
    assert UsageRecordForm.model_validate_json(json_line(told))


def test_request_that_went_outside_is_told_with_the_model_that_was_asked_there() -> None:
    notes = tally()
    notes.route = replace(make_route(alias="chat"), fallback=FALLBACK)
    assert record_of(notes, Outcome.OK, 11.0)["upstream_model"] == "served/chat"
    notes.target, notes.backend = "outside", OUTSIDE
    told = record_of(notes, Outcome.OK, 11.0)
    assert (told["upstream_model"], told["replica"]) == ("their-model", "api.example.com:443")


@pytest.mark.parametrize("alias", ["x" * 1000, "\ud800", "ä\udfff"])
def test_what_a_caller_wrote_is_bounded_and_always_a_line_of_json(alias: str) -> None:
    notes = tally(path=b"/v1/" + b"y" * 1000 + b"?key=secret")
    notes.alias, notes.route = alias, None
    line = json_line(record_of(notes, Outcome.REFUSED, 11.0))
    assert len(line) < 1000
    assert b"secret" not in line


def test_endpoints_beyond_the_bound_are_measured_together() -> None:
    measures = Measures()
    for number in range(1000):
        notes = tally()
        notes.route = replace(make_route(alias="chat"), endpoint=f"ep-{number}")
        measures.observe(notes, Outcome.OK, 10.5)
    counts = [line for line in measures.lines() if line.startswith("gen_ai_server_request_duration_seconds_count")]
    assert len(counts) == 201
    assert sum(int(line.rpartition(" ")[2]) for line in counts) == 1000
    assert [line.rpartition(" ")[2] for line in counts if 'endpoint="other"' in line] == ["800"]


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        (b"/v1/chat/completions", "chat"),
        (b"/v1/responses", "chat"),
        (b"/v1/completions", "text_completion"),
        (b"/v1/embeddings", "embeddings"),
        (b"/v1/audio/transcriptions", "transcription"),
        (b"/v1/whatever/they/like", "other"),
    ],
)
def test_paths_are_told_as_operations(path: bytes, operation: str) -> None:
    measures = Measures()
    measures.observe(tally(path=path), Outcome.OK, 10.5)
    [line] = [line for line in measures.lines() if line.startswith("gen_ai_server_request_duration_seconds_count")]
    assert f'gen_ai_operation_name="{operation}"' in line


def test_times_of_tokens_are_those_after_the_first() -> None:
    measures, notes = Measures(), tally()
    notes.first_token, notes.tokens = 10.5, Tokens(7, 5, "stop")
    measures.observe(notes, Outcome.OK, 12.5)
    sums = dict(line.rsplit(" ", 1) for line in measures.lines() if "_sum{" in line)
    found = {name.partition("{")[0]: float(value) for name, value in sums.items() if "input" not in name}
    assert found == {
        "gen_ai_server_request_duration_seconds_sum": 2.5,
        "gen_ai_server_time_to_first_token_seconds_sum": 0.5,
        "gen_ai_server_time_per_output_token_seconds_sum": 0.5,
        "gen_ai_client_token_usage_sum": 5.0,
    }
