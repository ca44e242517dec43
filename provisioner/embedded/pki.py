"""The keys and certificates of a laptop installation, under `<state>/pki`.

Two authorities that must not be mixed up: `client-ca` signs our own client certificate, by which tenants' Gateways know
our gateways and control plane; `server-ca` signs tenants' wildcard certificates and stands for the ClusterIssuer
`local`. Made once; a file that is there is never replaced.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provisioner.domain.errors import InvariantError

_YEARS_10 = timedelta(days=3650)
_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its private key, in PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair([redacted])"


@dataclass(frozen=True, slots=True)
class Pki:
    """Everything under `<state>/pki`."""

    client_ca: Pair
    server_ca: Pair
    client: Pair


def ensure_pki(folder: Path, *, now: datetime) -> Pki:
    """The installation's keys and certificates, made where missing: valid for ten years from `now`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    client_ca = _ensure(folder, "client-ca", lambda: _authority("tenantry laptop client CA", now))
    server_ca = _ensure(folder, "server-ca", lambda: _authority("tenantry laptop server CA", now))
    client = _ensure(folder, "client", lambda: issue(client_ca, "tenantry", now=now, lifetime=_YEARS_10))
    return Pki(client_ca, server_ca, client)


def issue(
    authority: Pair, common_name: str, *, now: datetime, lifetime: timedelta, hostnames: Sequence[str] = ()
) -> Pair:
    """A new key with a certificate by `authority`: for a server when there are `hostnames` (or addresses), else for a
    client."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hostnames else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(common_name, issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(_authority_key_identifier(issuer), critical=False)
    )
    if hostnames:
        names = x509.SubjectAlternativeName([_alternative_name(hostname) for hostname in hostnames])
        builder = builder.add_extension(names, critical=False)
    return _signed(builder, key, _private_key(authority))


def check_authority(pair: Pair) -> Pair:
    """The same, if it can sign. Raises ValueError when it cannot be read, InvariantError for another kind of key."""
    x509.load_pem_x509_certificate(pair.certificate)
    _private_key(pair)
    return pair


def server_context(authority: Pair, host: str, *, now: datetime) -> ssl.SSLContext:
    """What a server at `host` speaks TLS with: a new certificate by `authority`."""
    pair = issue(authority, host, now=now, lifetime=_YEARS_10, hostnames=[host])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:  # readable by us alone; the module takes nothing but files
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _authority(common_name: str, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(common_name, subject, key.public_key(), now, _YEARS_10)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def _builder(
    common_name: str, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _authority_key_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_key(pair: Pair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvariantError("reading an authority's key: not an elliptic curve key")
    return key


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    text = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    return Pair(certificate.public_bytes(encoding), text)


def _ensure(folder: Path, name: str, make: Callable[[], Pair]) -> Pair:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    if not certificate.exists():  # written last: a certificate that is there has its key
        made = make()
        _write(key, made.key, mode=0o600)
        _write(certificate, made.certificate, mode=0o644)
    return Pair(certificate.read_bytes(), key.read_bytes())


def _write(path: Path, content: bytes, *, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
