"""What a key and a group of routes may be sent in a minute: requests and tokens. In memory, this gateway's share.

Several gateways each take an even part, at least one. A request is taken before it is sent on, its tokens when the
engine has told them; while they are in debt, nothing more is let through. What is known of a key or a group that has
an allowance and was asked for is a few numbers; of all others there is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from provisioner.domain.duration import go_duration
from provisioner.domain.snapshot import Allowance, KeyDigest, Route, Snapshot
from provisioner.gateway.queueing.meter import Meter
from provisioner.gateway.refusal import RefusedError, used_up

HeaderLines = tuple[bytes, ...]
"""Finished header lines, each with its line end."""

_ONE = 1.0 - 1e-9
"""What a request needs of each; what came back evenly may lack a rounding error."""


_REQUESTS, _TOKENS = (
    b"x-ratelimit-limit-%b: %%d\r\nx-ratelimit-remaining-%b: %%d\r\nx-ratelimit-reset-%b: %%b\r\n" % ((name,) * 3)
    for name in (b"requests", b"tokens")
)
"""A rate as OpenAI tells it: how much is allowed and left, and when nothing of it is used any more."""


class _Account:
    """What one key or group may be sent, and has been. None is no bound, and so is a bound of 0.

    `snapshot` is the number of the snapshot whose allowance it has.
    """

    __slots__ = ("requests", "snapshot", "tokens")

    def __init__(self) -> None:
        self.snapshot = 0
        self.requests: Meter | None = None
        self.tokens: Meter | None = None


class Allowances:
    """The allowances of all keys and groups. `time` is a steady clock, in seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._snapshot = 0
        self._gateways = 1
        self._bounded: Mapping[str, Allowance] = {}
        """Of groups, by name."""
        self._groups: dict[str, _Account] = {}
        self._keys: dict[str, _Account] = {}
        """By digest; like groups those that were asked for."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the allowances of a new snapshot; what is used up stays used up."""
        self._snapshot += 1
        self._gateways = snapshot.gateways
        self._bounded = {group.name: group.allowance for group in snapshot.groups if group.allowance is not None}
        self._groups = {name: account for name, account in self._groups.items() if name in self._bounded}
        if len(self._keys) > len(snapshot.keys):  # now and then, for it looks at all keys
            known = {key.digest for key in snapshot.keys}
            self._keys = {digest: account for digest, account in self._keys.items() if digest in known}

    def take(self, key: KeyDigest, route: Route) -> HeaderLines:
        """Takes one request out of the allowances of `key` and of the route's group; gives the `x-ratelimit-*` lines.

        Raises `RefusedError` (429) when one of them is used up, and takes nothing then.
        """
        accounts = self._accounts(key, route)
        if not accounts:
            return ()
        now = self._time()
        requests = tokens = None
        for account in accounts:
            requests = _tighter(requests, account.requests, now)
            tokens = _tighter(tokens, account.tokens, now)
        if (requests is not None and requests.free < _ONE) or (tokens is not None and tokens.free < _ONE):
            raise _refusal(requests, tokens)
        for account in accounts:
            if account.requests is not None:
                account.requests.take(1.0)
        return _lines(requests, tokens)

    def spend(self, key: KeyDigest, route: Route, tokens: int) -> None:
        """Takes the tokens that a request turned out to use."""
        for account in self._accounts(key, route):
            if account.tokens is not None:
                account.tokens.read(self._time())
                account.tokens.take(tokens)

    def _accounts(self, key: KeyDigest, route: Route) -> list[_Account]:
        """What bounds a request of `key` on `route`."""
        accounts = []
        if key.allowance is not None:
            accounts.append(self._account(self._keys, key.digest, key.allowance))
        if self._bounded:
            name = route.group or route.endpoint
            allowance = self._bounded.get(name)
            if allowance is not None:
                accounts.append(self._account(self._groups, name, allowance))
        return accounts

    def _account(self, accounts: dict[str, _Account], name: str, allowance: Allowance) -> _Account:
        """The account of that name, which takes over what has changed when it is first asked for after a change."""
        account = accounts.get(name)
        if account is None:
            account = accounts[name] = _Account()
        if account.snapshot != self._snapshot:
            now = self._time()
            account.requests = _resized(account.requests, allowance.requests_per_minute, self._gateways, now)
            account.tokens = _resized(account.tokens, allowance.tokens_per_minute, self._gateways, now)
            account.snapshot = self._snapshot
        return account


def _resized(meter: Meter | None, per_minute: int | None, gateways: int, now: float) -> Meter | None:
    """The meter of this gateway's share of `per_minute`."""
    if not per_minute:
        return None
    share = max(1.0, per_minute / gateways)
    if meter is None:
        return Meter(share, now)
    meter.resize(share, now)
    return meter


def _tighter(known: Meter | None, meter: Meter | None, now: float) -> Meter | None:
    """The one with less left, `meter` being read first. Where key and group are both bounded, the nearer end counts."""
    if meter is None:
        return known
    free = meter.read(now)
    return meter if known is None or free < known.free else known


def _lines(requests: Meter | None, tokens: Meter | None) -> HeaderLines:
    lines: HeaderLines = ()
    if requests is not None:
        lines += (_line(_REQUESTS, requests),)
    if tokens is not None:
        lines += (_line(_TOKENS, tokens),)
    return lines


def _line(form: bytes, meter: Meter) -> bytes:
    free, per_minute = meter.free, meter.per_minute
    reset = _milliseconds(math.ceil((per_minute - free) * 60_000 / per_minute))
    return form % (per_minute, free + 1e-9 if free > 0 else 0, reset)


@lru_cache(maxsize=4096)
def _milliseconds(number: int) -> bytes:
    return go_duration(number / 1000).encode()


def _refusal(requests: Meter | None, tokens: Meter | None) -> RefusedError:
    """What there is to wait for: the one of the two that takes longer."""
    waits = {
        name: meter.seconds_until(1.0)
        for name, meter in (("requests", requests), ("tokens", tokens))
        if meter is not None and meter.free < _ONE
    }
    name = max(waits, key=waits.__getitem__)
    told = b"".join(_lines(requests, tokens)).decode().split("\r\n")[:-1]
    headers = tuple((field, value) for field, _, value in (line.partition(": ") for line in told))
    return RefusedError(used_up(name, waits[name], headers))
