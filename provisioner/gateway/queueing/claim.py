"""Who asks, as far as the order of live traffic is concerned. Only a signed assertion makes a request interactive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provisioner.domain.snapshot import KeyDigest


@dataclass(frozen=True, slots=True)
class Claim:
    """`principal` is the verified person behind an interactive request; None for background."""

    tenant: str
    principal: str | None = None


class Claims:
    """Reads claims from what the caller sent."""

    def read(self, key: KeyDigest, withheld: Mapping[bytes, bytes]) -> Claim:
        """The claim of a request with `key`; `withheld` are the header fields that stay here, by lower-case name."""
        return Claim(key.tenant)
