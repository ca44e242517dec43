"""TLS on the customers' address."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from provisioner.domain.clock import SystemClock
from provisioner.domain.errors import RejectedError
from provisioner.gateway.server import start_gateway
from provisioner.settings.gateway import read_gateway_config
from tests.gateway.alone import Alone, alone
from tests.gateway.certificates import Authority


def trusting(*authorities: Authority) -> ssl.SSLContext:
    """What a caller trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for authority in authorities:
        context.load_verify_locations(authority.certificate)
    return context


async def chat(stage: Alone, context: ssl.SSLContext) -> int:
    """The status of a request over TLS, on a connection of its own."""
    async with aiohttp.ClientSession() as http:
        url = f"https://localhost:{stage.gateway.port}/v1/chat/completions"
        async with http.post(url, json={"model": "general"}, ssl=context) as answer:
            return answer.status


async def test_gateway_speaks_tls_with_the_certificate_that_is_there_now(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    certificate, key = first.issue("localhost")
    files = {"TENANTRY_TLS_CERT": str(certificate), "TENANTRY_TLS_KEY": str(key)}
    async with alone(**files) as stage:
        assert await chat(stage, trusting(first)) == 200
        key.write_text("half of a key")
        await asyncio.sleep(0.6)
        assert await chat(stage, trusting(first)) == 200
        second.issue("localhost")
        async with asyncio.timeout(30):
            while not await _is_trusted(stage, second):
                await asyncio.sleep(0.05)


async def _is_trusted(stage: Alone, authority: Authority) -> bool:
    try:
        return await chat(stage, trusting(authority)) == 200
    except aiohttp.ClientConnectorCertificateError:
        return False


async def test_refusal_that_ends_the_connection_arrives_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("localhost")
    async with alone(TENANTRY_TLS_CERT=str(certificate), TENANTRY_TLS_KEY=str(key)) as stage:
        reader, writer = await asyncio.open_connection("localhost", stage.gateway.port, ssl=trusting(authority))
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert b" 400 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        writer.close()


async def test_caller_without_tls_gets_no_answer(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path, "ca").issue("localhost")
    async with alone(TENANTRY_TLS_CERT=str(certificate), TENANTRY_TLS_KEY=str(key)) as stage:
        with pytest.raises(aiohttp.ClientError):
            await stage.chat("general")
        assert stage.asked("general") == []


async def test_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    certificate, _ = Authority(tmp_path, "ca").issue("localhost")
    _, other_key = Authority(tmp_path, "other").issue("example.com")
    environ = {"BACKEND_GENERAL": "http://127.0.0.1:1", "TENANTRY_TLS_CERT": str(certificate)}
    with pytest.raises(RejectedError, match="certificate"):
        config = read_gateway_config({**environ, "TENANTRY_TLS_KEY": str(other_key)})
        await start_gateway(config, clock=SystemClock())
