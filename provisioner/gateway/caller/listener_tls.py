"""TLS on the customers' address, where nothing in front of the gateway ends it.

A certificate is replaced on disk while the gateway runs; connections made from then on are given the new one. Used by
`server`.
"""

from __future__ import annotations

import ssl

from provisioner.domain.errors import RejectedError
from provisioner.gateway.config import ListenerTls
from provisioner.gateway.file_stamp import Stamp, stamp_of


class CallerTls:
    """Keeps the `context` of the listener as the files are."""

    def __init__(self, files: ListenerTls) -> None:
        """Reads the files. Raises `RejectedError` when they cannot be used."""
        self._files = files
        try:
            self._stamp = self._look()
            self.context = self._read()
        except OSError as error:  # ssl.SSLError is one
            raise RejectedError(
                f"reading the certificate `{files.certificate}` and its key: {error.strerror or error}",
                reason="BadCertificate",
                hint="TENANTRY_TLS_CERT and TENANTRY_TLS_KEY name PEM files that belong together",
            ) from error

    def renew(self) -> None:
        """Takes replaced files into use. While they cannot be used (half-written, say), the ones before stay."""
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._read()  # first into a context of its own: one that is half changed would serve nobody
                self.context.load_cert_chain(self._files.certificate, self._files.key)
                self._stamp = stamp
        except OSError:  # ssl.SSLError is one
            pass

    def _look(self) -> Stamp:
        return stamp_of(self._files.certificate, self._files.key)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._files.certificate, self._files.key)
        return context
