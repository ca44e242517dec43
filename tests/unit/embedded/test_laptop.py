"""What a laptop installation is made of: its keys and certificates, and its Site."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from provisioner.admission import admit_endpoint, preview_id
from provisioner.admission.manifests import ManifestJudge
from provisioner.catalog.checks import check_site
from provisioner.catalog.loader import load_catalog, load_site
from provisioner.embedded.laptop import laptop_site, write_site
from provisioner.embedded.pki import Pair, ensure_pki, issue
from provisioner.rendering.pack import compile_pack

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _store(authority: Pair) -> Store:
    return Store([x509.load_pem_x509_certificate(authority.certificate)])


def _is_client(certificate: Pair, authority: Pair) -> bool:
    anything = ExtensionPolicy.permit_all().may_be_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
    policy = ExtensionPolicy.webpki_defaults_ca()
    builder = PolicyBuilder().store(_store(authority)).time(_NOW)
    verifier = builder.extension_policies(ca_policy=policy, ee_policy=anything).build_client_verifier()
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate.certificate), [])
    except VerificationError:
        return False
    return True


def test_keys_are_made_once_and_are_private(tmp_path: Path) -> None:
    first = ensure_pki(tmp_path / "pki", now=_NOW)
    assert ensure_pki(tmp_path / "pki", now=_NOW + timedelta(days=1)) == first
    for name in ("client-ca", "server-ca", "client"):
        assert stat.S_IMODE((tmp_path / "pki" / f"{name}.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert "PRIVATE" not in repr(first)


def test_pair_that_was_cut_off_is_made_anew_and_the_others_stay(tmp_path: Path) -> None:
    first = ensure_pki(tmp_path, now=_NOW)
    (tmp_path / "client.crt").unlink()
    second = ensure_pki(tmp_path, now=_NOW)
    assert (second.client_ca, second.server_ca) == (first.client_ca, first.server_ca)
    assert second.client != first.client
    assert _is_client(second.client, second.client_ca)


def test_authorities_are_not_mixed_up(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, now=_NOW)
    assert _is_client(pki.client, pki.client_ca)
    assert not _is_client(pki.client, pki.server_ca)


def test_wildcard_certificate_is_good_for_one_label_of_its_tenant(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, now=_NOW)
    lifetime = timedelta(days=90)
    pair = issue(pki.server_ca, "acme", now=_NOW, lifetime=lifetime, hostnames=["*.acme.tenants.example.com"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    builder = PolicyBuilder().store(_store(pki.server_ca)).time(_NOW)
    builder.build_server_verifier(x509.DNSName("r0-abc-ep.acme.tenants.example.com")).verify(certificate, [])
    for wrong in ("r0.globex.tenants.example.com", "deep.r0.acme.tenants.example.com"):
        with pytest.raises(VerificationError):
            builder.build_server_verifier(x509.DNSName(wrong)).verify(certificate, [])


def test_openssl_takes_the_files(tmp_path: Path) -> None:
    ensure_pki(tmp_path, now=datetime.now(UTC))  # noqa: TID251  # OpenSSL reads the system's clock itself
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "server-ca.crt")
    context.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")


def test_site_of_a_laptop_is_one_that_loads_and_fits_the_catalog(tmp_path: Path) -> None:
    client_ca = ensure_pki(tmp_path / "pki", now=_NOW).client_ca.certificate.decode()
    site = laptop_site(repository=tmp_path / "delivery.git", client_ca=client_ca, gateway_port=8403, public_port=8402)
    write_site(site, tmp_path / "site.yaml")
    loaded = load_site(tmp_path / "site.yaml")
    assert loaded == site
    assert list(check_site(loaded, load_catalog())) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pki", "site.yaml"]


def test_policies_refuse_nothing_of_an_endpoint_on_a_laptop(tmp_path: Path) -> None:
    site = laptop_site(repository=tmp_path, client_ca="PEM", gateway_port=8403, public_port=8402)
    catalog = load_catalog()
    asked = {
        "name": "chat",
        "tenant": "acme",
        "model": "gemma-3-270m",
        "region": "local",
        "tier": "dedicated",
        "scaling": {"minReplicas": 1, "maxReplicas": 2},
    }
    _, plan = admit_endpoint(asked, catalog=catalog, site=site, endpoint_id=preview_id(asked))
    assert ManifestJudge(compile_pack(catalog, site)).findings(plan) == ()
