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

from provisioner.domain.clock import SystemClock
from provisioner.embedded.apiserver.server import serve_api
from provisioner.embedded.controllers.api import Api, open_session
from provisioner.embedded.controllers.certificates import Certificates
from provisioner.embedded.controllers.conditions import find_condition
from provisioner.embedded.controllers.kinds import CERTIFICATE, SECRET
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
            task = asyncio.create_task(run_cluster([certificates.controller()], Cluster(api, api)))
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
