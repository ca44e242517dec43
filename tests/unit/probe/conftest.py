"""A tenant's Gateway on loopback that demands our client certificate, with a scripted model server behind it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provisioner.domain.snapshot import Backend
from provisioner.probe.http import HttpProbe

HOST = "r0-abc123-ep-a.acme.tenants.example.com"


@dataclass(frozen=True)
class Authority:
    """A CA that signs certificates into a folder."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        """Its certificate, PEM."""
        path = self.folder / f"{self.name}.crt"
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate for `name` and its key, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        certificate = _certificate(name, key, self.name, self.key).add_extension(names, critical=False)
        files = self.folder / f"{self.name}-{name}.crt", self.folder / f"{self.name}-{name}.key"
        signed = certificate.sign(self.key, hashes.SHA256())
        files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files


def authority(folder: Path, name: str) -> Authority:
    """A new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(name, key, name, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return Authority(folder, name, key, certificate.sign(key, hashes.SHA256()))


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime(2020, 1, 1, tzinfo=UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


@dataclass
class Model:
    """A model server: what it answers by path, and what it was asked."""

    answers: dict[str, tuple[int, Any]] = field(
        default_factory=lambda: {
            "/health": (200, {}),
            "/v1/models": (200, {"data": [{"id": "gemma"}]}),
            "/v1/chat/completions": (200, {"choices": [{}]}),
            "/v1/embeddings": (200, {"data": [{}]}),
            "/v1/audio/transcriptions": (200, {"text": ""}),
        }
    )
    hosts: set[str] = field(default_factory=set)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request."""
        self.hosts.add(request.headers["Host"])
        self.headers.append(request.headers)
        self.bodies.append(await request.read())
        status, body = self.answers.get(request.path, (404, {}))
        if isinstance(body, bytes):
            return web.Response(status=status, body=body)
        return web.json_response(body, status=status)


@dataclass(frozen=True)
class Tenant:
    """The tenant's Gateway and who may call it."""

    backend: Backend
    model: Model
    server: Authority
    clients: Authority


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    """A Gateway that asks for a client certificate of the CA `clients`."""
    server, clients = authority(tmp_path, "server-ca"), authority(tmp_path, "client-ca")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(clients.file))
    context.load_cert_chain(*server.sign(HOST))
    context.verify_mode = ssl.CERT_REQUIRED
    model = Model()
    async with listening(model, context) as address:
        yield Tenant(Backend(host=HOST, address=address), model, server, clients)


@pytest.fixture
async def probe(tenant: Tenant) -> AsyncIterator[HttpProbe]:
    """Our probe, with our certificate."""
    certificate, key = tenant.clients.sign("control-plane")
    probe = HttpProbe(client_cert=certificate, client_key=key, server_ca=tenant.server.file)
    yield probe
    await probe.close()


@asynccontextmanager
async def listening(model: Model, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server on a free loopback port while the block runs; its address."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", model.serve)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()
