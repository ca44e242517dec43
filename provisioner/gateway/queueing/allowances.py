"""What a key and a tenant may send in a minute: requests and tokens. In memory, this gateway's share of the whole."""

from __future__ import annotations

from provisioner.domain.snapshot import KeyDigest, Snapshot

HeaderLines = tuple[bytes, ...]
"""Finished header lines, each with its line end."""


class Allowances:
    """The allowances of all keys and tenants."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the allowances of a new snapshot; what is used up stays used up."""

    def take(self, key: KeyDigest) -> HeaderLines:
        """Takes one request out of the allowances of `key` and its tenant; gives the `x-ratelimit-*` lines.

        Raises `RefusedError` (429) when one of them is used up, and takes nothing then.
        """
        return ()

    def spend(self, key: KeyDigest, tokens: int) -> None:
        """Takes the tokens that a request turned out to use."""
