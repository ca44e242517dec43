"""The TLS context with which the gateway shows itself to replicas: our client certificate, and the CA that it trusts.

Certificates are short-lived and replaced on disk while the gateway runs, so the context is made anew when a file has
changed. Connections that are open keep the certificate they were opened with. Used by `dialer`.
"""

from __future__ import annotations

import ssl

from provisioner.domain.errors import RejectedError
from provisioner.gateway.config import TlsFiles
from provisioner.gateway.file_stamp import Stamp, stamp_of


class ClientTls:
    """Gives the context of the files as they are now."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads the files once. Raises `RejectedError` when they cannot be used."""
        self._files = files
        self._stamp = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The present context. While replaced files cannot be used (half-written, say), the one before stays."""
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._context = self._read()
                self._stamp = stamp
        except RejectedError:
            pass
        return self._context

    def _look(self) -> Stamp:
        files = self._files
        try:
            return stamp_of(files.client_certificate, files.client_key, files.server_ca)
        except OSError as error:
            raise RejectedError(f"reading the TLS files of the gateway: {error}") from error

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_verify_locations(cafile=files.server_ca)
            context.load_cert_chain(files.client_certificate, files.client_key)
        except (OSError, ssl.SSLError) as error:
            raise RejectedError(f"reading the TLS files of the gateway: {error}") from error
        return context
