"""Asking replicas over mutual TLS, and customers' URLs."""

from __future__ import annotations

import asyncio
import io
import ssl
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.domain.errors import RejectedError
from provisioner.domain.small_request import one_second_of_audio
from provisioner.probe.http import HttpProbe
from tests.unit.probe.conftest import HOST, Model, Tenant, authority, listening


async def test_healthy_replica_is_asked_by_its_own_name(probe: HttpProbe, tenant: Tenant) -> None:
    found = await probe.replica(tenant.backend, model="gemma", kind="chat")
    assert (found.ok, found.message) == (True, "")
    assert tenant.model.hosts == {HOST}


@pytest.mark.parametrize("kind", ["chat", "embedding", "transcription"])
async def test_small_request_is_of_the_models_kind(probe: HttpProbe, tenant: Tenant, kind: str) -> None:
    assert (await probe.replica(tenant.backend, model="gemma", kind=kind)).ok
    assert b"gemma" in tenant.model.bodies[-1]
    assert (b"RIFF" in tenant.model.bodies[-1]) is (kind == "transcription")


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        ("/health", (503, {"error": "loading"}), "LoadingModel"),
        ("/health", (500, {}), "Unhealthy"),
        ("/v1/models", (200, {"data": [{"id": "other"}]}), "WrongModel"),
        ("/v1/models", (200, b"<html>"), "WrongModel"),
        ("/v1/models", (200, {"data": 3}), "WrongModel"),
        ("/v1/chat/completions", (500, {}), "NoAnswer"),
        ("/v1/chat/completions", (200, {"choices": []}), "NoAnswer"),
        ("/v1/chat/completions", (200, b"x" * (2**20 + 1)), "NoAnswer"),
    ],
)
async def test_replica_that_does_not_serve_is_told_with_its_reason(
    probe: HttpProbe, tenant: Tenant, path: str, answer: tuple[int, Any], reason: str
) -> None:
    """Ledger: HEA-10"""
    tenant.model.answers[path] = answer
    found = await probe.replica(tenant.backend, model="gemma", kind="chat")
    assert (found.ok, found.reason) == (False, reason)
    assert len(found.message) < 500


async def test_replica_with_a_certificate_of_another_name_is_not_trusted(probe: HttpProbe, tenant: Tenant) -> None:
    other = replace(tenant.backend, host="r1-abc123-ep-a.acme.tenants.example.com")
    assert not (await probe.replica(other, model="gemma", kind="chat")).ok
    assert tenant.model.hosts == set()


async def test_replicas_behind_one_address_are_each_asked_by_their_own_name(probe: HttpProbe, tenant: Tenant) -> None:
    """A connection to one is not used for the next, whose certificate nobody would have looked at."""
    other = replace(tenant.backend, host="r1-abc123-ep-a.acme.tenants.example.com")
    assert (await probe.replica(tenant.backend, model="gemma", kind="chat")).ok
    assert not (await probe.replica(other, model="gemma", kind="chat")).ok
    assert tenant.model.hosts == {HOST}


async def test_gateway_that_asks_for_our_certificate_refuses_a_stranger(probe: HttpProbe, tenant: Tenant) -> None:
    assert (await probe.refuses_stranger(tenant.backend)).ok
    assert tenant.model.hosts == set()


async def test_renewed_certificate_is_taken_up_and_half_of_one_is_not(tenant: Tenant, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    certificate, key = authority(tmp_path / "others", "other-ca").sign("control-plane")
    good = tenant.clients.sign("control-plane")
    probe = HttpProbe(client_cert=certificate, client_key=key, server_ca=tenant.server.file)
    assert not (await probe.replica(tenant.backend, model="gemma", kind="chat")).ok
    for ours, renewed in zip((certificate, key), good, strict=True):
        ours.write_bytes(renewed.read_bytes())
    assert (await probe.replica(tenant.backend, model="gemma", kind="chat")).ok
    certificate.write_bytes(b"")
    assert (await probe.replica(tenant.backend, model="gemma", kind="chat")).ok
    await probe.close()


async def test_gateway_that_asks_for_none_does_not_refuse(probe: HttpProbe, tenant: Tenant) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*tenant.server.sign(HOST))
    async with listening(tenant.model, context) as address:
        found = await probe.refuses_stranger(replace(tenant.backend, address=address))
    assert (found.ok, found.reason) == (False, "StrangerAccepted")


async def test_nobody_at_the_address_is_no_refusal(probe: HttpProbe, tenant: Tenant) -> None:
    found = await probe.refuses_stranger(replace(tenant.backend, address="127.0.0.1:9"))
    assert (found.ok, found.reason) == (False, "GatewayUnreachable")


async def test_gateway_that_we_do_not_trust_is_no_refusal(probe: HttpProbe, tenant: Tenant) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*tenant.clients.sign(HOST))
    async with listening(tenant.model, context) as address:
        found = await probe.refuses_stranger(replace(tenant.backend, address=address))
    assert (found.ok, found.reason) == (False, "GatewayUnreachable")


async def test_outside_sends_the_key_and_tells_the_status(probe: HttpProbe) -> None:
    model = Model()
    async with listening(model) as address:
        url = f"http://{address}/v1"
        assert await probe.outside(url, alias="chat", kind="chat", secret="tnt-x") == (200, "")
        assert model.headers[-1]["Authorization"] == "Bearer tnt-x"
        model.answers["/v1/chat/completions"] = (401, {"error": "no key"})
        status, told = await probe.outside(url, alias="chat", kind="chat", secret=None)
    assert (status, "no key" in told) == (401, True)
    assert "Authorization" not in model.headers[-1]


async def test_outside_without_an_answer_is_status_zero(probe: HttpProbe) -> None:
    status, told = await probe.outside("http://127.0.0.1:9/v1", alias="chat", kind="chat", secret="tnt-x")
    assert status == 0
    assert told and "tnt-x" not in told


async def test_peer_that_is_no_http_server_is_a_result(probe: HttpProbe) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert (await probe.outside(f"http://127.0.0.1:{port}/v1", alias="chat", kind="chat", secret=None))[0] == 0


def test_second_of_audio_is_one_second() -> None:
    with wave.open(io.BytesIO(one_second_of_audio())) as sound:
        assert sound.getnframes() / sound.getframerate() == 1.0


def test_certificate_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    garbage = tmp_path / "client.crt"
    garbage.write_text("garbage")
    for file in (garbage, tmp_path / "missing.crt"):
        with pytest.raises(RejectedError, match=file.name):
            HttpProbe(client_cert=file, client_key=file, server_ca=file)
