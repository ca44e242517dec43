"""A snapshot's bytes become the same directory, whatever their number; what is none is refused whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from provisioner.domain.snapshot import Allowance, Backend, Fallback, QueueGroup, Snapshot, TenantTerms
from provisioner.gateway.control.decoding import decode_directory
from tests.gateway.stub import NOW, make_key, make_route

TARGET = Backend(host="api.partner.example.com", address="api.partner.example.com:443", is_public=True)
FALLBACK = Fallback(policy="partner", is_enabled=True, is_acknowledged=False, target=TARGET, model="partner/chat")


@given(routes=st.integers(0, 401), keys=st.integers(0, 401))
def test_every_route_and_key_arrives(routes: int, keys: int) -> None:
    snapshot = Snapshot(
        version=7,
        created_at=NOW,
        routes=tuple(replace(make_route(TARGET, alias=f"a{n}"), fallback=FALLBACK) for n in range(routes)),
        keys=tuple(make_key(f"k{n}", expires_at=NOW) for n in range(keys)),
        groups=(QueueGroup(name="acme/shared", slots=4, allowance=Allowance(requests_per_minute=60)),),
        tenants=(TenantTerms(tenant="acme", priority_key="acme"),),
        gateways=3,
    )
    assert decode_directory(TypeAdapter(Snapshot).dump_json(snapshot)).snapshot == snapshot


def test_a_newer_control_planes_fields_are_left_out() -> None:
    content = b'{"version":1,"created_at":"2026-01-01T00:00:00Z","routes":[],"keys":[],"later":{"x":1}}'
    assert decode_directory(content).snapshot == Snapshot(version=1, created_at=NOW, routes=(), keys=())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"version":1,"created_at":"2026-01-01T00:00:00Z","routes":{},"keys":[]}',
        b'{"version":1,"created_at":"2026-01-01T00:00:00Z","routes":[{"alias":"a"}],"keys":[]}',
        b'{"version":1,"created_at":"2026-01-01T00:00:00Z","routes":[],"keys":[7]}',
        b'{"version":"x","created_at":"2026-01-01T00:00:00Z","routes":[],"keys":[]}',
    ],
)
def test_what_is_no_snapshot_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        decode_directory(content)
