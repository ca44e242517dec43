"""Which replicas of a route a request may try, and in which order; and what became of those that were tried.

The exchange asks for an order and tells how its request ended; probes tell what they found. Three failures in a row
take a replica out (`health`), every change of a share makes the orders anew (`turns`). What is known of a replica
outlives a snapshot that names it again at the same address.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from provisioner.domain.snapshot import Backend, Balance, Route, Snapshot
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.health import Health
from provisioner.gateway.replica.turns import Replica, Turns

_log = logging.getLogger(__name__)


class Replicas:
    """What is known of all replicas. `balance` holds for routes that say nothing."""

    def __init__(self, balance: Balance, counters: Counters) -> None:
        self._balance: Balance = balance
        self._counters = counters
        self.snapshot: Snapshot | None = None
        """The present one; its routes are known by their identity."""
        self._by_route: dict[int, Turns] = {}
        self._turns: dict[str, list[Turns]] = {}
        """By endpoint; one for all routes of an endpoint that have the same replicas."""
        self._replicas: dict[tuple[str, str], Replica] = {}
        """By name and address."""
        self._returning: set[Replica] = set()
        self._routers: dict[tuple[str, str], int] = {}
        """Requests that local routers have, by name and address."""
        self.cache_aware: dict[str, tuple[Route, Turns]] = {}
        """By endpoint, those that ask for a local router, and their first route."""

    def use(self, snapshot: Snapshot) -> None:
        """Takes the replicas of a new snapshot and forgets those that are gone."""
        before, known = self._turns, self._replicas
        self.snapshot, self._by_route, self._turns, self._replicas = snapshot, {}, {}, {}
        self.cache_aware = {}
        for route in snapshot.routes:
            members = [self._member(known, backend, route) for backend in route.backends]
            own = self._turns.setdefault(route.endpoint, [])
            balance = route.balance or self._balance
            for turns in (*own, *before.get(route.endpoint, ())):
                if turns.backends == route.backends and turns.balance == balance and turns.members == members:
                    break
            else:
                turns = Turns(route.backends, members, balance)
            self._by_route[id(route)] = turns
            if balance == "cache-aware":
                self.cache_aware.setdefault(route.endpoint, (route, turns))
            if turns not in own:
                own.append(turns)
                for member in members:
                    member.turns.append(turns)
        self._returning = {replica for replica in self._replicas.values() if replica.health.returned_at is not None}

    def _member(self, known: Mapping[tuple[str, str], Replica], backend: Backend, route: Route) -> Replica:
        name = backend.host, backend.address
        member = self._replicas.get(name)
        if member is None:
            member = known.get(name) or Replica(backend, route)
            member.backend, member.route, member.turns = backend, route, []
            self._replicas[name] = member
        return member

    def in_turn(self, route: Route) -> Sequence[Backend]:
        """The healthy replicas of `route` in the order in which this request may try them."""
        turns = self._by_route.get(id(route))
        if turns is not None:
            return turns.take()
        return tuple(backend for backend in route.backends if not self._is_out(backend))  # of a snapshot before this

    def _is_out(self, backend: Backend) -> bool:
        replica = self._replicas.get((backend.host, backend.address))
        return replica is not None and replica.health.is_out

    # What the exchange tells.

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
            self._judge(replica, replica.health.after_failure("ServerError"))
        elif replica.health.failed_requests:
            replica.health = replica.health.after_answer()

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
        return self._replicas.get((replica.backend.host, replica.backend.address)) is replica

    def probe_passed(self, replica: Replica) -> None:
        """A probe found nothing wrong."""
        replica.health = replica.health.after_good_probe()

    def probe_failed(self, replica: Replica, reason: str) -> None:
        """A probe, or the proof of a replica that is out, found `reason`."""
        self._counters.probe_failures[reason] += 1
        self._judge(replica, replica.health.after_failed_probe(reason))

    def proven(self, replica: Replica, now: float) -> None:
        """A replica that was out has answered a real request at `now`: it comes back, with a share that grows."""
        self._judge(replica, replica.health.after_proof(now))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Lets the shares of those that are back grow."""
        for replica in tuple(self._returning):
            replica.health = replica.health.at(now)
            if replica.health.returned_at is None:
                self._returning.discard(replica)
            self._give(replica, replica.health.share(now))

    def _judge(self, replica: Replica, health: Health) -> None:
        was_out, replica.health = replica.health.is_out, health
        if health.is_out == was_out:
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
        extra = {"endpoint": endpoint, "backend": replica.backend.host, "reason": reason}
        if reason is None:
            self._counters.replica_returns += 1
            _log.info("a replica is back", extra={"action": "replica_back", **extra})
        else:
            self._counters.replica_ejections[reason] += 1
            _log.warning("a replica is out: %s", reason, extra={"action": "replica_out", **extra})
