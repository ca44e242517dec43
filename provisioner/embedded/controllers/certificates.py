"""Certificates as cert-manager makes them, signed by the installation's own server CA.

Certificate -> Secret `kubernetes.io/tls`, renewed after two thirds of its life. One issuer is known, the ClusterIssuer
`local`; it needs no object in a tenant cluster, where cert-manager's own chart is only played.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509

from provisioner.domain.clock import Clock
from provisioner.embedded.controllers.api import Json
from provisioner.embedded.controllers.conditions import Condition, timestamp, write_conditions
from provisioner.embedded.controllers.kinds import CERTIFICATE, SECRET
from provisioner.embedded.controllers.loop import Cluster, Controller, Key, Watch
from provisioner.embedded.pki import Pair, issue

ISSUER = "local"
_LIFETIME = timedelta(days=90)
_LOOK_AGAIN_SECONDS = 3600.0


class Certificates:
    """Certificate -> Secret, in any cluster."""

    def __init__(self, authority: Pair, clock: Clock) -> None:
        self._authority = authority
        self._clock = clock

    def controller(self) -> Controller:
        """Looks at a certificate again when its Secret changes (both have the same name nearly always; a Secret of
        another name is found again within the hour)."""
        return Controller("certificates", (Watch(CERTIFICATE), Watch(SECRET)), self.reconcile)

    async def reconcile(self, cluster: Cluster, key: Key) -> float | None:
        """Issue or renew, and say what there is."""
        found = await cluster.api.get(CERTIFICATE, key.name, namespace=key.namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return None
        spec, now = found["spec"], self._clock.now()
        if spec["issuerRef"]["name"] != ISSUER:
            message = f"Referenced issuer not found: {spec['issuerRef']['name']}"
            missing = Condition("Ready", False, "IssuerNotFound", message)
            await write_conditions(cluster.api, CERTIFICATE, found, (missing,), now=now)
            return None
        secret = await cluster.api.get(SECRET, spec["secretName"], namespace=key.namespace)
        current = _current(secret, spec.get("dnsNames") or (), now)
        if current is None:
            current = await self._issue(cluster, found, now)
        ready = Condition("Ready", True, "Ready", "Certificate is up to date and has not expired")
        times = {
            "notBefore": timestamp(current.not_valid_before_utc),
            "notAfter": timestamp(current.not_valid_after_utc),
            "renewalTime": timestamp(_renewal(current)),
        }
        await write_conditions(cluster.api, CERTIFICATE, found, (ready,), now=now, **times)
        return _LOOK_AGAIN_SECONDS

    async def _issue(self, cluster: Cluster, found: Json, now: datetime) -> x509.Certificate:
        spec, metadata = found["spec"], found["metadata"]
        hostnames = spec.get("dnsNames") or [spec["commonName"]]
        pair = issue(self._authority, hostnames[0], now=now, lifetime=_LIFETIME, hostnames=hostnames)
        contents = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": self._authority.certificate}
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


def _current(secret: Json | None, hostnames: Sequence[str], now: datetime) -> x509.Certificate | None:
    """The certificate in a Secret, unless it is for other hostnames, unreadable or due for renewal."""
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode((secret or {})["data"]["tls.crt"]))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (KeyError, TypeError, ValueError, x509.ExtensionNotFound):
        return None
    if sorted(names.get_values_for_type(x509.DNSName)) != sorted(hostnames):
        return None
    return certificate if now < _renewal(certificate) else None


def _renewal(certificate: x509.Certificate) -> datetime:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * 2 / 3
