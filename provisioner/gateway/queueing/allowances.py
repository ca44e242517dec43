"""What a key and a group of routes may be sent in a minute: requests and tokens. In memory, this gateway's share."""

from __future__ import annotations

from provisioner.domain.snapshot import KeyDigest, Route, Snapshot

HeaderLines = tuple[bytes, ...]
"""Finished header lines, each with its line end."""


class Allowances:
    """The allowances of all keys and groups."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the allowances of a new snapshot; what is used up stays used up."""

    def take(self, key: KeyDigest, route: Route) -> HeaderLines:
        """Takes one request out of the allowances of `key` and of the route's group; gives the `x-ratelimit-*` lines.

        Raises `RefusedError` (429) when one of them is used up, and takes nothing then.
        """
        return ()

    def spend(self, key: KeyDigest, route: Route, tokens: int) -> None:
        """Takes the tokens that a request turned out to use."""
