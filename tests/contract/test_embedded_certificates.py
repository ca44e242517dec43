"""cert-manager's stand-in, seen through the Kubernetes API."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.certificates import Certificates
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import CERTIFICATE, CLUSTER_ISSUER, ISSUER, SECRET
from provisioner.embedded.controllers.loop import Cluster, Key, run_cluster
from provisioner.embedded.pki import Pki, ensure_pki
from tests.contract.embedded import eventually

Json = dict[str, Any]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class _Clock:
    time: datetime = _BEGIN

    def now(self) -> datetime:
        return self.time


@dataclass(frozen=True)
class _World:
    api: Api
    clock: _Clock
    pki: Pki
    certificates: Certificates

    async def request(self, *hostnames: str, issuer: str = "local") -> None:
        manifest: Json = {
            "metadata": {"name": "tenant", "namespace": "default"},
            "spec": {
                "secretName": "tenant-tls",
                "dnsNames": list(hostnames),
                "issuerRef": {"kind": "ClusterIssuer", "name": issuer},
            },
        }
        await self.api.apply(CERTIFICATE, manifest, manager="acme")

    async def issued(self) -> x509.Certificate | None:
        secret = await self.api.get(SECRET, "tenant-tls", namespace="default")
        return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"])) if secret else None

    async def ready(self) -> Json:
        found = await self.api.get(CERTIFICATE, "tenant", namespace="default")
        return find_condition(found or {}, "Ready") or {}


@asynccontextmanager
async def _running(state: Path) -> AsyncIterator[_World]:
    server = await serve_api(state=state, host="127.0.0.1", port=0, clock=SystemClock())
    clock = _Clock()
    pki = ensure_pki(state / "pki", now=_BEGIN)
    try:
        async with open_session() as session:
            api = Api(session, server.url)
            certificates = Certificates(pki.server_ca, clock)
            task = asyncio.create_task(run_cluster(certificates.controllers(), Cluster(api, api)))
            try:
                yield _World(api, clock, pki, certificates)
            finally:
                task.cancel()
                await asyncio.wait((task,))
    finally:
        await server.close()


async def test_certificate_is_issued_by_the_server_authority(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        await world.request("*.acme.tenants.example.com")
        await eventually(world.ready, lambda found: found.get("status") == "True")
        certificate = await world.issued()
        assert certificate is not None
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(world.pki.server_ca.certificate))
        secret = await world.api.get(SECRET, "tenant-tls", namespace="default")
        assert secret is not None
        assert secret["type"] == "kubernetes.io/tls"
        assert sorted(secret["data"]) == ["ca.crt", "tls.crt", "tls.key"]


async def test_certificate_for_other_hostnames_is_issued_anew(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        await world.request("a.example.com")
        first = await eventually(world.issued, bool)
        await world.request("a.example.com", "b.example.com")
        second = await eventually(world.issued, lambda found: found != first)
        assert second is not None
        names = second.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["a.example.com", "b.example.com"]


async def test_certificate_is_kept_until_two_thirds_of_its_life_are_over(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        await world.request("a.example.com")
        first = await eventually(world.issued, bool)
        await eventually(world.ready, lambda found: found.get("status") == "True")
        cluster, key = Cluster(world.api, world.api), Key("default", "tenant")
        world.clock.time += timedelta(days=59)
        await world.certificates.reconcile(cluster, key)
        assert await world.issued() == first
        world.clock.time += timedelta(days=2)
        await world.certificates.reconcile(cluster, key)
        assert await world.issued() != first


async def test_issuer_that_is_not_known_is_named(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        await world.request("a.example.com", issuer="letsencrypt")
        condition = await eventually(world.ready, bool)
        assert (condition["status"], condition["reason"]) == ("False", "IssuerNotFound")
        assert "letsencrypt" in condition["message"]
        assert await world.issued() is None


async def test_issuer_with_a_ca_of_its_own_signs_client_certificates(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        spec = {"ca": {"secretName": "clients-ca"}}
        metadata = {"name": "clients", "namespace": "default"}
        await world.api.apply(ISSUER, {"metadata": metadata, "spec": spec}, manager="acme")

        async def issuer() -> Json:
            found = await world.api.get(ISSUER, "clients", namespace="default")
            return find_condition(found or {}, "Ready") or {}

        condition = await eventually(issuer, bool)
        assert (condition["status"], condition["reason"]) == ("False", "ErrGetKeyPair")
        pair = world.pki.client_ca
        data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
        secret = {"metadata": {"name": "clients-ca", "namespace": "default"}, "type": "kubernetes.io/tls", "data": data}
        await world.api.apply(SECRET, secret, manager="acme")
        await eventually(issuer, lambda found: found.get("status") == "True")
        reference = {"kind": "Issuer", "name": "clients"}
        wanted = {"secretName": "tenant-tls", "commonName": "acme", "usages": ["client auth"], "issuerRef": reference}
        named = {"name": "tenant", "namespace": "default"}
        await world.api.apply(CERTIFICATE, {"metadata": named, "spec": wanted}, manager="acme")
        await eventually(world.ready, lambda found: found.get("status") == "True")
        certificate = await world.issued()
        assert certificate is not None
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pair.certificate))
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        await world.certificates.reconcile(Cluster(world.api, world.api), Key("default", "tenant"))
        assert await world.issued() == certificate


async def test_issuer_that_nobody_answers_for_is_played_and_says_so(tmp_path: Path) -> None:
    async with _running(tmp_path) as world:
        acme = {"acme": {"server": "https://acme.example.com/directory"}}
        await world.api.apply(CLUSTER_ISSUER, {"metadata": {"name": "public"}, "spec": acme}, manager="acme")
        await world.request("a.example.com", issuer="public")
        await eventually(world.ready, lambda found: found.get("status") == "True")
        issuer = await eventually(
            lambda: world.api.get(CLUSTER_ISSUER, "public"), lambda found: find_condition(found or {}, "Ready")
        )
        assert (find_condition(issuer or {}, "Ready") or {})["reason"] == "Played"
