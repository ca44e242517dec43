"""Which replicas of a route a request may try, and in which order; and what became of those that were tried.

The exchange asks for an order, its asking tells how a request ended, and probes tell what they found. Three failures in
a row take a replica out, or make it suspect (`health`); every change of a share makes the orders anew (`turns`). What
is known of a replica outlives a snapshot that names it again at the same address.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from provisioner.domain.snapshot import Backend, Balance, Route, Snapshot
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.health import SUSPECT_SHARE, Health
from provisioner.gateway.replica.turns import Replica, Turns

_log = logging.getLogger(__name__)

_ROUTES_PER_SLICE: Final = 50


class Replicas:
    """What is known of all replicas. `balance` holds for routes that say nothing."""

    def __init__(self, balance: Balance, counters: Counters) -> None:
        self._balance: Balance = balance
        self._counters = counters
        self.surveyed: Snapshot | None = None
        """The last one of which every replica is known."""
        self._survey: Iterator[None] = iter(())
        self._present: Snapshot | None = None
        self._slice = _ROUTES_PER_SLICE
        self._by_route: dict[int, Turns] = {}
        """By the identity of routes, which are kept beside it for that."""
        self._kept: list[Route] = []
        self._turns: dict[str, list[Turns]] = {}
        """By endpoint; one for all routes of an endpoint that have the same replicas."""
        self._replicas: dict[tuple[str, str], Replica] = {}
        """By name and address."""
        self._returning: set[Replica] = set()
        self.suspects: set[Replica] = set()
        """Those that answered with errors and wait for a probe to decide."""
        self.alarm: Callable[[], None] = lambda: None
        """Called when there is one more."""
        self._routers: dict[tuple[str, str], int] = {}
        """Requests that local routers have, by name and address."""
        self.cache_aware: dict[str, tuple[Route, Turns]] = {}
        """By endpoint, those that ask for a local router, and their first route."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the replicas of a new snapshot and forgets those that are gone.

        A route is taken up when it is first asked for. All others follow, a few with each `tick`: thousands at once
        would hold up requests. Where snapshots come faster than that, slices grow until all are reached in time:
        what is gone is forgotten at the end only.
        """
        is_overtaken = self.surveyed is not self._present
        self._present, self._slice = snapshot, 2 * self._slice if is_overtaken else _ROUTES_PER_SLICE
        self._by_route, self._kept = {}, []
        self._survey = self._look_over(snapshot)
        next(self._survey, None)

    def _look_over(self, snapshot: Snapshot) -> Iterator[None]:
        """Goes through the routes in slices; at the end exactly what they name is known."""
        turns_now: dict[str, list[Turns]] = {}
        replicas_now: dict[tuple[str, str], Replica] = {}
        cache_aware: dict[str, tuple[Route, Turns]] = {}
        for number, route in enumerate(snapshot.routes, 1):
            turns = self._by_route.get(id(route)) or self._adopt(route)
            own = turns_now.setdefault(route.endpoint, [])
            if turns not in own:
                own.append(turns)
                for backend, replica in zip(route.backends, turns.members, strict=True):
                    if replica.name not in replicas_now:
                        replicas_now[replica.name] = replica
                        replica.backend, replica.route, replica.turns = backend, route, []
                    if turns not in replica.turns:
                        replica.turns.append(turns)
                turns.renew()
            if turns.balance == "cache-aware":
                cache_aware.setdefault(route.endpoint, (route, turns))
            if number % self._slice == 0:
                yield
        self._turns, self._replicas, self.cache_aware = turns_now, replicas_now, cache_aware
        self._returning = {replica for replica in self._returning if self.knows(replica)}
        self.suspects = {replica for replica in self.suspects if self.knows(replica)}
        self.surveyed = snapshot

    def _adopt(self, route: Route) -> Turns:
        """The order of a route that is asked for for the first time."""
        own = self._turns.setdefault(route.endpoint, [])
        balance = route.balance or self._balance
        for turns in own:
            if turns.balance == balance and turns.backends == route.backends:
                break
        else:
            members = [self._member(backend, route) for backend in route.backends]
            turns = Turns(route.backends, members, balance)
            own.append(turns)
            for member in members:
                member.turns.append(turns)
        self._by_route[id(route)] = turns
        self._kept.append(route)
        return turns

    def _member(self, backend: Backend, route: Route) -> Replica:
        name = backend.host, backend.address
        member = self._replicas.get(name)
        if member is None:
            member = self._replicas[name] = Replica(backend, route)
        return member

    def in_turn(self, route: Route, *, is_routable: bool = True) -> Sequence[Backend]:
        """The healthy replicas of `route` in the order in which this request may try them; a local router in front of
        them comes first for one that `is_routable`."""
        turns = self._by_route.get(id(route)) or self._adopt(route)
        backends = turns.take()
        return backends if is_routable or turns.front is None else backends[1:]

    # What an asking tells.

    def began(self, backend: Backend) -> None:
        """A request is about to be sent to `backend`. It ends with exactly one of the three calls below."""
        name = backend.host, backend.address
        replica = self._replicas.get(name)
        if replica is not None:
            replica.outstanding += 1
        elif name in self._routers:
            self._routers[name] += 1

    def answered(self, backend: Backend, status: int) -> None:
        """Its answer, of this status, is complete. From 500 on the replica has failed; below 400 it has not; what lies
        between says nothing about it."""
        replica = self._ended(backend)
        if replica is None or 400 <= status < 500:
            return
        if status >= 500:
            self._judge(replica, replica.health.after_error())
        elif replica.health.failed_requests:
            self._judge(replica, replica.health.after_answer())

    def broke(self, backend: Backend, reason: str) -> None:
        """It was not answered, or not to the end, and the replica is to blame; `reason` is a CamelCase word."""
        replica = self._ended(backend)
        if replica is not None:
            self._judge(replica, replica.health.after_failure(reason))

    def left(self, backend: Backend) -> None:
        """Its caller has gone, which says nothing about the replica."""
        self._ended(backend)

    def _ended(self, backend: Backend) -> Replica | None:
        name = backend.host, backend.address
        replica = self._replicas.get(name)
        if replica is not None and replica.outstanding:  # it may be known for less long than its request
            replica.outstanding -= 1
        elif replica is None and name in self._routers:
            self._routers[name] -= 1
        return replica

    # What local routers ask and tell.

    def put_in_front(self, turns: Turns, router: Backend) -> None:
        """Sends the requests of `turns` to a local router first."""
        self._routers.setdefault((router.host, router.address), 0)
        turns.put_in_front(router)

    def is_router_idle(self, router: Backend) -> bool:
        """Whether no request is with a local router; one that is behind no `Turns` any more gets none."""
        return not self._routers.get((router.host, router.address))

    def forget_router(self, router: Backend) -> None:
        """The local router is gone."""
        self._routers.pop((router.host, router.address), None)

    # What an operator asks.

    def by_state(self) -> Mapping[str, int]:
        """How many replicas are up, returning and out."""
        out = sum(replica.health.is_out for replica in self._replicas.values())
        returning = len(self._returning)
        return {"up": len(self._replicas) - returning - out, "returning": returning, "out": out}

    def out_by_endpoint(self) -> Mapping[str, int]:
        """How many replicas are out, of each endpoint that has any."""
        return Counter(replica.route.endpoint for replica in self._replicas.values() if replica.health.is_out)

    # What probes ask and tell.

    @property
    def known(self) -> Iterable[Replica]:
        """Every replica of the present snapshot."""
        return self._replicas.values()

    def knows(self, replica: Replica) -> bool:
        """Whether the present snapshot names it."""
        return self._replicas.get(replica.name) is replica

    def probe_passed(self, replica: Replica) -> None:
        """A probe found nothing wrong."""
        replica.health = replica.health.after_good_probe()

    def probe_failed(self, replica: Replica, reason: str) -> None:
        """A probe, or the proof of a replica that is out, found `reason`."""
        self._counters.probe_failures[reason] += 1
        self._judge(replica, replica.health.after_failed_probe(reason))

    def proven(self, replica: Replica, now: float) -> None:
        """A replica that was out has answered a real request at `now`: it comes back, with a share that grows. One that
        was suspect stays."""
        self._judge(replica, replica.health.after_proof(now))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Lets the shares of those that are back grow, and goes on with what a new snapshot brought."""
        next(self._survey, None)
        for replica in tuple(self._returning):
            replica.health = replica.health.at(now)
            if replica.health.returned_at is None:
                self._returning.discard(replica)
            self._give(replica, replica.health.share(now))

    def _judge(self, replica: Replica, health: Health) -> None:
        before, replica.health = replica.health, health
        if health.is_suspect and not before.is_suspect:
            self.suspects.add(replica)
            self._give(replica, SUSPECT_SHARE)
            self.alarm()
        elif before.is_suspect and not health.is_suspect:
            self.suspects.discard(replica)
            self._give(replica, 1.0)  # of one that is coming back the next tick makes less
        if health.is_out == before.is_out:
            return
        self._tell(replica)
        if health.is_out:
            self._returning.discard(replica)
            self._give(replica, 0.0)
        else:
            self._returning.add(replica)

    def _give(self, replica: Replica, share: float) -> None:
        before, replica.share = replica.share, share
        if (share == 0, share == 1) != (before == 0, before == 1):
            for turns in replica.turns:
                turns.renew()

    def _tell(self, replica: Replica) -> None:
        reason, endpoint = replica.health.out_because, replica.route.endpoint
        host = replica.backend.host
        extra = {"endpoint": endpoint, "backend": host, "reason": reason}
        if reason is None:
            self._counters.replica_returns += 1
            _log.info("replica is back: %s", host, extra={"action": "replica_back", **extra})
        else:
            self._counters.replica_ejections[reason] += 1
            _log.warning("replica is out, %s: %s", reason, host, extra={"action": "replica_out", **extra})
