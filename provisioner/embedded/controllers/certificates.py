"""Certificates and issuers as cert-manager plays them.

Certificate -> Secret `kubernetes.io/tls`, renewed after two thirds of its life. An issuer with a CA of its own signs
with that; all others (ACME and the like, which nobody answers here) with the installation's server CA, and say so. The
issuer `local` needs no object: in a tenant cluster cert-manager's own chart is only played.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509

from provisioner.domain.clock import Clock
from provisioner.domain.errors import InvariantError
from provisioner.embedded.controllers.api import Json, spec_of
from provisioner.embedded.controllers.conditions import Condition, timestamp, write_conditions
from provisioner.embedded.controllers.kinds import CERTIFICATE, CLUSTER_ISSUER, ISSUER, SECRET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.pki import Pair, check_authority, issue

LOCAL = "local"
_LIFETIME = timedelta(days=90)
_LOOK_AGAIN_SECONDS = 3600.0
_ISSUER_SECONDS = 5.0
_CLUSTER_NAMESPACE = "cert-manager"


class Certificates:
    """Certificate -> Secret, and the state of issuers, in any cluster."""

    def __init__(self, authority: Pair, clock: Clock) -> None:
        self._authority = authority
        self._clock = clock

    def controllers(self) -> Sequence[Controller]:
        """Looks at a certificate again when its Secret changes (both have the same name nearly always; a Secret of
        another name is found again within the hour)."""
        return (
            Controller("certificates", (Watch(CERTIFICATE), Watch(SECRET)), self.reconcile),
            Controller("issuers", (Watch(ISSUER), Watch(CLUSTER_ISSUER)), self._reconcile_issuer),
        )

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Issue or renew, and say what there is."""
        found = await cluster.api.get(CERTIFICATE, key.name, namespace=key.namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        spec, now = found["spec"], self._clock.now()
        authority = await self._authority_of(cluster, spec["issuerRef"], key.namespace)
        if authority is None:
            message = f"Referenced issuer not found or not ready: {spec['issuerRef']['name']}"
            missing = Condition("Ready", False, "IssuerNotFound", message)
            await write_conditions(cluster.api, CERTIFICATE, found, (missing,), now=now)
            return _ISSUER_SECONDS
        secret = await cluster.api.get(SECRET, spec["secretName"], namespace=key.namespace)
        current = _current(secret, _hostnames(spec), now)
        if current is None:
            current = await self._issue(cluster, found, authority)
        ready = Condition("Ready", True, "Ready", "Certificate is up to date and has not expired")
        times = {
            "notBefore": timestamp(current.not_valid_before_utc),
            "notAfter": timestamp(current.not_valid_after_utc),
            "renewalTime": timestamp(_renewal(current)),
        }
        await write_conditions(cluster.api, CERTIFICATE, found, (ready,), now=now, **times)
        return _LOOK_AGAIN_SECONDS

    async def _reconcile_issuer(self, cluster: Cluster, key: Key) -> float | None:
        kind = ISSUER if key.namespace else CLUSTER_ISSUER
        found = await cluster.api.get(kind, key.name, namespace=key.namespace)
        if found is None:
            return None
        authority = await self._authority_of(cluster, {"kind": kind.kind, "name": key.name}, key.namespace)
        if authority is None:
            named = (spec_of(found).get("ca") or {}).get("secretName")  # or the issuer has gone in between
            condition = Condition("Ready", False, "ErrGetKeyPair", f"no authority with an elliptic curve key: {named}")
        elif authority is self._authority:
            condition = Condition("Ready", True, "Played", "certificates are signed by the server CA of a laptop")
        else:
            condition = Condition("Ready", True, "KeyPairVerified", "Signing CA verified")
        await write_conditions(cluster.api, kind, found, (condition,), now=self._clock.now())
        return _ISSUER_SECONDS if authority is None else None

    async def _authority_of(self, cluster: Cluster, reference: Json, namespace: str | None) -> Pair | None:
        """Who signs for an issuer; None when there is no such issuer, or no such CA."""
        if reference["name"] == LOCAL:
            return self._authority
        is_cluster_wide = reference.get("kind") == CLUSTER_ISSUER.kind
        kind = CLUSTER_ISSUER if is_cluster_wide else ISSUER
        issuer = await cluster.api.get(kind, reference["name"], namespace=namespace)
        if issuer is None:
            return None
        if "ca" not in spec_of(issuer):
            return self._authority
        where = _CLUSTER_NAMESPACE if is_cluster_wide else namespace
        secret = await cluster.api.get(SECRET, spec_of(issuer)["ca"]["secretName"], namespace=where)
        try:
            data = {name: base64.b64decode(value) for name, value in (secret or {})["data"].items()}
            return check_authority(Pair(data["tls.crt"], data["tls.key"]))
        except (KeyError, TypeError, ValueError, InvariantError):
            return None

    async def _issue(self, cluster: Cluster, found: Json, authority: Pair) -> x509.Certificate:
        spec, metadata = found["spec"], found["metadata"]
        hostnames = _hostnames(spec)
        name = spec.get("commonName") or hostnames[0]
        pair = issue(authority, name, now=self._clock.now(), lifetime=_LIFETIME, hostnames=hostnames)
        contents = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        secret = {
            "metadata": {
                "name": spec["secretName"],
                "namespace": metadata["namespace"],
                "annotations": {"cert-manager.io/certificate-name": metadata["name"]},
            },
            "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode(content).decode() for name, content in contents.items()},
        }
        await cluster.api.apply(SECRET, secret, manager="cert-manager")
        return x509.load_pem_x509_certificate(pair.certificate)


def _hostnames(spec: Json) -> list[str]:
    """What a server's certificate is for; a client's is for nobody."""
    if "server auth" not in spec.get("usages", ("server auth",)):
        return []
    return list(spec.get("dnsNames") or (spec["commonName"],))


def _current(secret: Json | None, hostnames: Sequence[str], now: datetime) -> x509.Certificate | None:
    """The certificate in a Secret, unless it is for other hostnames, unreadable or due for renewal."""
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode((secret or {})["data"]["tls.crt"]))
    except (KeyError, TypeError, ValueError):
        return None
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        found = []
    if sorted(found) != sorted(hostnames):
        return None
    return certificate if now < _renewal(certificate) else None


def _renewal(certificate: x509.Certificate) -> datetime:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * 2 / 3
