"""What a key and a group of routes may be sent in a minute: requests and tokens. In memory, this gateway's share.

Several gateways each take an even part, at least one. A request is taken before it is sent on, its tokens when the
engine has told them; while they are in debt, nothing more is let through. What is known of a key or a group that has an
allowance and was asked for is a few numbers; of all others there is nothing. Asked by `exchange`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from provisioner.domain.duration import go_duration
from provisioner.domain.snapshot import Allowance, KeyDigest, Route, Snapshot
from provisioner.gateway.queueing.meter import Meter
from provisioner.gateway.refusal import RefusedError, used_up

HeaderLines = tuple[bytes, ...]
"""The pieces of finished header lines, with their line ends."""

_ONE: Final = 1.0 - 1e-9
"""What a request needs of each; what came back evenly may lack a rounding error."""


class _Rate(Meter):
    """So many requests, or tokens, a minute, and what stands in the lines that tell of them before what is left and
    between that and the time of its reset."""

    __slots__ = ("before", "between")

    def __init__(self, unit: bytes, per_minute: float, now: float) -> None:
        super().__init__(per_minute, now)
        self.before, self.between = _form(unit, per_minute)


class _Account:
    """What one key or group may be sent, and has been. None is no bound, and so is a bound of 0.

    `snapshot` is the number of the snapshot whose allowance it has.
    """

    __slots__ = ("requests", "snapshot", "tokens")

    def __init__(self) -> None:
        self.snapshot = 0
        self.requests: _Rate | None = None
        self.tokens: _Rate | None = None


class Charge:
    """A request that was let through: the `x-ratelimit-*` lines for its caller, and who pays for its tokens."""

    __slots__ = ("accounts", "lines")

    def __init__(self, lines: HeaderLines, accounts: Sequence[_Account]) -> None:
        self.lines = lines
        self.accounts = accounts


NO_CHARGE: Final = Charge((), ())


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

    def take(self, key: KeyDigest, route: Route) -> Charge:
        """Takes one request out of the allowances of `key` and of the route's group.

        Raises `RefusedError` (429) when one of them is used up, and takes nothing then.
        """
        accounts = self._accounts(key, route)
        if not accounts:
            return NO_CHARGE
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
        return Charge(_lines(requests, tokens), accounts)

    def spend(self, charge: Charge, tokens: int) -> None:
        """Takes the tokens that a request turned out to use."""
        for account in charge.accounts:
            if account.tokens is not None:
                account.tokens.read(self._time())
                account.tokens.take(tokens)

    def _accounts(self, key: KeyDigest, route: Route) -> list[_Account]:
        """What bounds a request of `key` on `route`."""
        accounts = []
        if key.allowance is not None:
            accounts.append(self._account(self._keys, key.digest, key.allowance))
        if self._bounded:
            name = route.terms or route.group or route.endpoint
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
            account.requests = self._resized(account.requests, b"requests", allowance.requests_per_minute, now)
            account.tokens = self._resized(account.tokens, b"tokens", allowance.tokens_per_minute, now)
            account.snapshot = self._snapshot
        return account

    def _resized(self, rate: _Rate | None, unit: bytes, per_minute: int | None, now: float) -> _Rate | None:
        """The rate that is this gateway's share of `per_minute`."""
        if not per_minute:
            return None
        share = max(1.0, per_minute / self._gateways)
        if rate is None:
            return _Rate(unit, share, now)
        rate.resize(share, now)
        rate.before, rate.between = _form(unit, share)
        return rate


def _tighter(known: _Rate | None, rate: _Rate | None, now: float) -> _Rate | None:
    """The one with less left, `rate` being read first. Where key and group are both bounded, the nearer end counts."""
    if rate is None:
        return known
    free = rate.read(now)
    return rate if known is None or free < known.free else known


def _form(unit: bytes, per_minute: float) -> tuple[bytes, bytes]:
    """A rate as OpenAI tells it: how much is allowed and left, and when nothing of it is used any more."""
    allowed = b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: " % (unit, per_minute, unit)
    return allowed, b"\r\nx-ratelimit-reset-%b: " % unit


def _lines(requests: _Rate | None, tokens: _Rate | None) -> HeaderLines:
    if requests is None:
        return () if tokens is None else _lines_of(tokens)
    return _lines_of(requests) if tokens is None else _lines_of(requests) + _lines_of(tokens)


def _lines_of(rate: _Rate) -> HeaderLines:
    free, per_minute = rate.free, rate.per_minute
    left = int(free + 1e-9) if free > 0 else 0
    reset = math.ceil((per_minute - free) * 60_000 / per_minute)
    return (rate.before, str(left).encode(), rate.between, _milliseconds(reset))


@lru_cache(maxsize=4096)
def _milliseconds(number: int) -> bytes:
    return go_duration(number / 1000).encode() + b"\r\n"


def _refusal(requests: _Rate | None, tokens: _Rate | None) -> RefusedError:
    """What there is to wait for: the one of the two that takes longer."""
    waits = {
        name: rate.seconds_until(1.0)
        for name, rate in (("requests", requests), ("tokens", tokens))
        if rate is not None and rate.free < _ONE
    }
    name = max(waits, key=waits.__getitem__)
    told = b"".join(_lines(requests, tokens)).decode().split("\r\n")[:-1]
    headers = tuple((field, value) for field, _, value in (line.partition(": ") for line in told))
    return RefusedError(used_up(name, waits[name], headers))
