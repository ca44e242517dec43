"""Certificates for tests: a CA, and what it signs."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provisioner.gateway.server import TlsFiles


class Authority:
    """A CA of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = folder / f"{name}.crt"
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        _write(
            self.certificate,
            _builder(self._name, self._name, self._key)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256()),
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and key for the DNS name `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf")])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        certificate = (
            _builder(subject, self._name, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        )
        stem = name.replace("*", "any")
        paths = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        _write(paths[0], certificate)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths


def server_context(servers: Authority, clients: Authority, name: str) -> ssl.SSLContext:
    """What a tenant's Gateway does: serves `name` and demands a client certificate of `clients`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*servers.issue(name))
    context.load_verify_locations(clients.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_files(servers: Authority, clients: Authority) -> TlsFiles:
    """What the gateway is given."""
    certificate, key = clients.issue("gateway.example.com")
    return TlsFiles(client_certificate=certificate, client_key=key, server_ca=servers.certificate)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)  # noqa: TID251 - OpenSSL compares with the real time
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
