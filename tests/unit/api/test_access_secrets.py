"""Credentials that are none, in every form, and what of any of them is ever written down: nothing."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2
import pytest

from provisioner.api.services import Services
from provisioner.domain.access import AccessRole
from provisioner.wiring import protocol
from provisioner.wiring.serving import serve_app
from tests.unit.api.application import application
from tests.unit.api.callers import caller, secret_of
from tests.unit.api.conftest import GATEWAY_KEY, OPERATOR_KEY, REQUEST, idempotent

NO_KEYS: list[list[tuple[bytes, bytes]]] = [
    [(b"Authorization", b"Bearer operator-key"), (b"Authorization", b"Bearer operator-key")],
    [(b"Authorization", b"Bearer operator-key, Bearer operator-key")],
    [(b"Authorization", b"Basic operator-key")],
    [(b"Authorization", b"operator-key")],
    [(b"Authorization", b"Bearer\toperator-key")],
    [(b"Authorization", b"Bearer operator-key\0")],
    [(b"Authorization", "Bearer operator-key\u00e9".encode())],
    [(b"Authorization", b"Bearer \xff\xfe\xfd")],
    [(b"Authorization", b"Bearer " + b"x" * 1_000_000)],
    [(b"Authorization", b"Bearer OPERATOR-KEY")],
    [(b"Authorization", b"")],
    [(b"X-Api-Key", b"operator-key")],
    [(b"Cookie", b"Authorization=Bearer operator-key")],
]


@pytest.mark.parametrize("headers", NO_KEYS, ids=range(len(NO_KEYS)))
@pytest.mark.parametrize("path", ["/v1/tenants", "/internal/snapshots"])
async def test_what_is_no_key_is_answered_alike_and_not_repeated(
    stranger: httpx2.AsyncClient, path: str, headers: list[tuple[bytes, bytes]]
) -> None:
    """Ledger: LIF-11."""
    sent = [(name, value.replace(b"operator-key", b"gateway-key")) for name, value in headers]
    answer = await stranger.get(path, headers=headers if path == "/v1/tenants" else sent)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "-key" not in answer.text.lower()
    assert len(answer.content) < 1000


async def test_the_scheme_is_no_matter_of_case(stranger: httpx2.AsyncClient) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await stranger.get("/v1/tenants", headers={"Authorization": f"{scheme} {OPERATOR_KEY}"})
        assert answer.status_code == 200


async def test_no_secret_is_ever_logged(
    operator: httpx2.AsyncClient,
    stranger: httpx2.AsyncClient,
    services: Services,
    transport: httpx2.ASGITransport,
    acme: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every level of every logger, through what goes well, what is refused and what breaks. Ledger: SEC-07."""
    caplog.set_level(logging.DEBUG)
    secrets = {OPERATOR_KEY, GATEWAY_KEY, secret_of("customer"), "tnt-unknown-but-secret"}
    for number in range(6):
        answer = await operator.post("/v1/keys", json={"name": "ci", "tenant": acme}, headers=idempotent(f"k{number}"))
        if answer.status_code == 201:
            secrets.add(answer.json()["secret"])
            await operator.delete(f"/v1/keys/{answer.json()['key']['id']}", headers=idempotent(f"r{number}"))
    await operator.post("/v1/endpoints", json=REQUEST, headers=idempotent("e"))
    async with await caller(services, transport, "customer", AccessRole.CUSTOMER) as customer:
        for path in ("/v1/endpoints", "/v1/keys", "/internal/snapshots"):
            await customer.get(path)
    for key in (*secrets, "tnt-unknown-but-secret"):
        for path in ("/internal/snapshots", "/v1/audit"):
            await stranger.get(path, headers={"Authorization": f"Bearer {key}"})

    async def broken(digest: str) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(services.store.keys, "find", broken)
    monkeypatch.setattr("provisioner.api.callers.KNOWN_SECONDS", 0.0)
    assert (await operator.get("/v1/tenants")).status_code == 500
    assert len(caplog.records) > 30
    assert len(secrets) == 9
    told = [record.getMessage() + str(record.exc_info or "") for record in caplog.records]
    assert not [line for line in told if any(secret in line for secret in secrets)]
    assert not any(secret in caplog.text for secret in secrets)


@pytest.fixture
async def address(services: Services) -> AsyncIterator[tuple[str, int]]:
    """The application behind a real socket, as the server serves it."""
    listener, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    serving = asyncio.create_task(serve_app(application(services), listener, stop))
    yield listener.getsockname()[:2]
    stop.set()
    await serving


async def test_headers_without_end_are_refused_before_they_fill_the_memory(address: tuple[str, int]) -> None:
    assert b" 400 " in await asyncio.to_thread(_sent_without_end, address)


@pytest.mark.parametrize("begun", [b"", b"GET /v1/tenants HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "a part"])
async def test_a_request_that_does_not_come_is_not_waited_for(
    begun: bytes, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not begun:
        monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.02)
    reader, writer = await asyncio.open_connection(*address)
    async with asyncio.timeout(60):
        for _ in range(2 * bool(begun)):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in await reader.readuntil(b"}")
            monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.02)  # not before there is nothing to be late with
        await asyncio.sleep(0.05)  # between requests nobody is hurried
        writer.write(begun)
        assert await reader.read() == b""
    writer.close()


def _sent_without_end(address: tuple[str, int]) -> bytes:
    """What the server says to a header of up to 64 MiB, most of which it does not wait for."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ")
        for _ in range(1024):
            with suppress(ConnectionError):
                connection.sendall(b"x" * 65536)
                continue
            break
        else:
            return b""
        with suppress(ConnectionError):
            return connection.recv(4096)
    return b"HTTP/1.1 400 reset before it was read"
