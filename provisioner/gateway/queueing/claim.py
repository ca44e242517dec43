"""Who asks, as far as the order of live traffic is concerned. Only a signed assertion makes a request interactive.

Three header fields claim a place: the priority (`interactive`), the identity (the signed assertion) and the principal,
a digest which callers send for their own records and which is not read here. None of them goes on to a replica, nor
does any other claim of priority. Whatever is not proven is background, and nothing is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from provisioner.domain.clock import Clock
from provisioner.domain.snapshot import KeyDigest, Snapshot
from provisioner.gateway.config import Queueing
from provisioner.gateway.secrets import SecretReader

if TYPE_CHECKING:
    from provisioner.gateway.queueing.assertion import Assertion

_log = logging.getLogger(__name__)

_INTERACTIVE: Final = b"interactive"
_USUAL: Final = Queueing()


@dataclass(frozen=True, slots=True)
class Claim:
    """`person` is the tenant and the verified address of who sent an interactive request; None for background."""

    tenant: str
    person: tuple[str, str] | None = None


def claim_headers(rules: Queueing) -> frozenset[bytes]:
    """The header fields, in lower case, that claim a place: as they are named here, and as they are named usually."""
    return frozenset(
        name.lower().encode()
        for named in (rules, _USUAL)
        for name in (named.priority_header, named.principal_header, named.identity_header)
    )


class Claims:
    """Reads claims from what the caller sent. Without a key nobody is interactive.

    A tenant's own key is a secret that the snapshot names and `secret` gives.
    """

    def __init__(self, rules: Queueing, clock: Clock, *, secret: SecretReader) -> None:
        self._clock = clock
        self._secret = secret
        self._identity_key = rules.identity_key
        self._priority = rules.priority_header.lower().encode()
        self._identity = rules.identity_header.lower().encode()
        self._key_names: Mapping[str, str] = {}
        self._background: dict[str, Claim] = {}
        self._read: Callable[[bytes, bytes], Assertion | None] = _read_first
        if rules.identity_key:
            self._read = _reader()
            _warn_of_short(rules.identity_key)

    def use(self, snapshot: Snapshot) -> None:
        """Takes the tenants' keys of a new snapshot."""
        self._key_names = {terms.tenant: terms.priority_key for terms in snapshot.tenants if terms.priority_key}
        self._background = {}

    def read(self, key: KeyDigest, withheld: dict[bytes, bytes]) -> Claim:
        """The claim of a request with `key`; `withheld` are the header fields that stay here, by lower-case name."""
        tenant = key.tenant
        token = withheld.get(self._identity)
        if token is not None and withheld.get(self._priority, b"").strip().lower() == _INTERACTIVE:
            signing_key = self._key_of(tenant)
            assertion = self._read(token.strip(), signing_key) if signing_key else None
            if assertion is not None and assertion.holds_at(self._clock.now().timestamp()):
                return Claim(tenant, (tenant, assertion.email))
        claim = self._background.get(tenant)
        if claim is None:
            claim = self._background[tenant] = Claim(tenant)
        return claim

    def _key_of(self, tenant: str) -> bytes | None:
        name = self._key_names.get(tenant)
        return self._identity_key if name is None else self._secret(name)


def _read_first(token: bytes, key: bytes) -> Assertion | None:
    return _reader()(token, key)


def _reader() -> Callable[[bytes, bytes], Assertion | None]:
    """Loads the JWT library, which takes 17 MB where it finds `cryptography`: only where there are keys."""
    from provisioner.gateway.queueing.assertion import read_assertion

    return read_assertion


def _warn_of_short(key: bytes) -> None:
    from provisioner.gateway.queueing.assertion import LEAST_KEY_BYTES

    if len(key) < LEAST_KEY_BYTES:
        _log.warning(
            "taking the identity key: it is short enough to be guessed, bytes wanted: %d",
            LEAST_KEY_BYTES,
            extra={"action": "identity_key_short"},
        )
