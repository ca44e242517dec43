"""fleet.json: what is read, and what is said of a file that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from provisioner.preview.fleet import MAX_BYTES, read_fleet
from provisioner.preview.sides import Fleet

ENDPOINT: dict[str, Any] = {
    "id": "ep-abcdefghij",
    "tenant": "acme",
    "request": {"name": "chat", "tenant": "acme", "tier": "dedicated"},
    "templateVersion": "1.0.0",
    "replicas": 2,
}


def read(value: Any) -> Fleet:
    return read_fleet(json.dumps(value).encode(), file="fleet.json")


def findings(data: bytes) -> tuple[Finding, ...]:
    with pytest.raises(RejectedError) as refused:
        read_fleet(data, file="fleet.json")
    assert all(finding.file == "fleet.json" for finding in refused.value.findings)
    return refused.value.findings


def fields(value: Any) -> list[str]:
    return [finding.field for finding in findings(json.dumps(value).encode())]


def test_endpoints_and_free_gpus_are_read() -> None:
    fleet = read({"endpoints": [ENDPOINT], "capacity": {"metal3.gpu-h100": 4}})
    [endpoint] = fleet.endpoints
    assert (endpoint.id, endpoint.tenant, endpoint.replicas) == ("ep-abcdefghij", "acme", 2)
    assert endpoint.request["tier"] == "dedicated"
    assert fleet.free_gpus == {"metal3.gpu-h100": 4}


def test_an_empty_document_is_a_fleet_of_nothing() -> None:
    assert read({}) == Fleet()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "endpoints[0].id"),
        ({"id": 7}, "endpoints[0].id"),
        ({"tenant": None}, "endpoints[0].tenant"),
        ({"request": "chat"}, "endpoints[0].request"),
        ({"templateVersion": "1.0.0\n"}, "endpoints[0].templateVersion"),
        ({"replicas": -1}, "endpoints[0].replicas"),
        ({"replicas": True}, "endpoints[0].replicas"),
        ({"replicas": 1.5}, "endpoints[0].replicas"),
        ({"repliccas": 1}, "endpoints[0].repliccas"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(change: dict[str, Any], field: str) -> None:
    assert fields({"endpoints": [{**ENDPOINT, **change}]}) == [field]


def test_an_id_that_stands_twice_is_refused() -> None:
    assert fields({"endpoints": [ENDPOINT, ENDPOINT]}) == ["endpoints[1].id"]


def test_an_unknown_field_comes_with_the_nearest_name() -> None:
    [finding] = findings(json.dumps({"endpoint": []}).encode())
    assert finding.field == "endpoint"
    assert "did you mean `endpoints`?" in (finding.hint or "")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], ""),
        ({"endpoints": {}}, "endpoints"),
        ({"capacity": []}, "capacity"),
        ({"capacity": {"a": "4"}}, "capacity.a"),
    ],
)
def test_a_wrong_form_is_refused(value: Any, field: str) -> None:
    assert fields(value) == [field]


def test_text_that_is_no_json_names_its_line() -> None:
    [finding] = findings(b'{"endpoints": [\n  {"id": }\n]}')
    assert "line 2" in finding.message


def test_more_bytes_than_are_read_are_refused() -> None:
    [finding] = findings(b" " * (MAX_BYTES + 1))
    assert str(MAX_BYTES) in finding.message


def test_of_many_findings_the_first_twenty_are_told() -> None:
    assert len(fields({"endpoints": [{**ENDPOINT, "id": str(number), "replicas": -1} for number in range(100)]})) == 20


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_given_is_read_or_refused_with_findings(value: Any) -> None:
    try:
        data = json.dumps({"endpoints": [value], "capacity": value}).encode()
        read_fleet(data, file="fleet.json")
    except RejectedError as refused:
        assert refused.findings
