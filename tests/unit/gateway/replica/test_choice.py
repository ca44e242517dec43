"""What requests and probes make of replicas, and what a new snapshot keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from provisioner.domain.snapshot import Backend, Route, Snapshot
from provisioner.gateway.operator.counters import Counters
from provisioner.gateway.replica.choice import Replicas
from provisioner.gateway.replica.health import RETURN_SECONDS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (Backend(host=f"{name}.example.com", address="10.0.0.1:443") for name in "abc")


def make_route(*backends: Backend, alias: str = "chat", endpoint: str = "ep-1") -> Route:
    """A route of `endpoint`."""
    return Route(alias=alias, tenant="acme", endpoint=endpoint, upstream_model=alias, created_at=NOW, backends=backends)


def make_replicas(*routes: Route) -> Replicas:
    """Replicas of a first snapshot."""
    replicas = Replicas("round-robin", Counters())
    use(replicas, *routes)
    return replicas


def use(replicas: Replicas, *routes: Route) -> None:
    """Takes the next snapshot."""
    replicas.use(Snapshot(version=1, created_at=NOW, routes=routes, keys=()))


def is_surveyed(replicas: Replicas, routes: int) -> bool:
    """Whether all of a snapshot with so many routes is known."""
    return replicas.surveyed is not None and len(replicas.surveyed.routes) == routes


def fail(replicas: Replicas, backend: Backend, times: int = 3) -> None:
    """Fails requests on `backend`."""
    for _ in range(times):
        replicas.began(backend)
        replicas.broke(backend, "ConnectFailed")


def bring_back(replicas: Replicas, backend: Backend, now: float = 0.0) -> None:
    """Probes and proves `backend`."""
    replica = next(one for one in replicas.known if one.backend == backend)
    replicas.probe_passed(replica)
    replicas.probe_passed(replica)
    replicas.proven(replica, now)


def test_replica_that_fails_three_times_is_not_tried_any_more() -> None:
    """Ledger: HEA-04."""
    route = make_route(A, B)
    replicas = make_replicas(route)
    fail(replicas, A)
    assert [list(replicas.in_turn(route)) for _ in range(3)] == [[B]] * 3
    assert replicas.by_state() == {"up": 1, "returning": 0, "out": 1}
    assert replicas.out_by_endpoint() == {"ep-1": 1}


def test_last_replica_can_be_out_too() -> None:
    """Ledger: HEA-05."""
    route = make_route(A)
    replicas = make_replicas(route)
    fail(replicas, A)
    assert list(replicas.in_turn(route)) == []


def test_engine_s_status_decides() -> None:
    route = make_route(A, B)
    for status, is_bad in {200: False, 302: False, 400: False, 429: False, 499: False, 500: True, 503: True}.items():
        replicas = make_replicas(route)
        for _ in range(3):
            replicas.began(A)
            replicas.answered(A, status)
        assert [replica.backend for replica in replicas.suspects] == ([A] if is_bad else []), status


def test_suspect_gets_requests_only_where_there_is_no_other_until_a_probe_has_decided() -> None:
    """HEA-04"""
    for balance in ("round-robin", "least-loaded"):
        alone, beside = (replace(make_route(*backends), balance=balance) for backends in ((A,), (A, B)))
        replicas = make_replicas(beside)
        for _ in range(3):
            replicas.began(A)
            replicas.answered(A, 500)
        assert {replicas.in_turn(beside)[0] for _ in range(99)} == {B}
        use(replicas, alone)
        assert {replicas.in_turn(alone)[0] for _ in range(9)} == {A}


def test_probe_decides_about_a_suspect() -> None:
    """HEA-04"""
    route = make_route(A, B)
    for decision, is_out in {"proven": False, "answered": False, "probe_failed": True, "gone": False}.items():
        replicas = make_replicas(route)
        for _ in range(3):
            replicas.began(A)
            replicas.answered(A, 500)
        (suspect,) = replicas.suspects
        match decision:
            case "proven":
                replicas.proven(suspect, 0.0)
            case "answered":
                replicas.began(A)
                replicas.answered(A, 200)
            case "probe_failed":
                replicas.probe_failed(suspect, "NoAnswer")
            case _:
                use(replicas, make_route(B))
        assert (not replicas.suspects, replicas.by_state()["out"] == 1) == (True, is_out), decision
        assert replicas.by_state()["returning"] == 0
        if not is_out and decision != "gone":
            assert {replicas.in_turn(route)[0] for _ in range(2)} == {A, B}


def test_refusals_and_callers_who_leave_say_nothing() -> None:
    """Neither ends a row of failures, nor makes one longer."""
    replicas = make_replicas(make_route(A))
    fail(replicas, A, 2)
    replicas.began(A)
    replicas.answered(A, 404)
    replicas.began(A)
    replicas.left(A)
    assert replicas.by_state()["out"] == 0
    fail(replicas, A, 1)
    assert replicas.by_state()["out"] == 1


def test_what_is_known_of_a_replica_outlives_a_snapshot_that_names_it_again() -> None:
    """At the same address: another address is another server."""
    replicas = make_replicas(make_route(A, B))
    fail(replicas, A)
    fail(replicas, B, 2)
    now = make_route(replace(A), B, C, alias="other")
    use(replicas, now)
    assert list(replicas.in_turn(now)) == [B, C]
    fail(replicas, B, 1)
    assert list(replicas.in_turn(now)) == [C]
    moved = make_route(replace(A, address="10.0.0.9:443"), B)
    use(replicas, moved)
    assert [backend.address for backend in replicas.in_turn(moved)] == ["10.0.0.9:443"]


def test_turns_go_on_over_a_snapshot_that_changes_nothing_for_them() -> None:
    replicas = make_replicas(make_route(A, B, C))
    found = []
    for _ in range(30):
        route = make_route(replace(A), B, C)
        use(replicas, route, make_route(A, endpoint="ep-2"))
        found.append(replicas.in_turn(route)[0])
    assert Counter(found) == {A: 10, B: 10, C: 10}


def test_aliases_of_an_endpoint_share_turns() -> None:
    base, adapter = make_route(A, B), make_route(A, B, alias="chat/legal")
    replicas = make_replicas(base, adapter)
    assert [replicas.in_turn(route)[0] for route in (base, adapter, base, adapter)] == [A, B, A, B]


def test_replica_of_two_endpoints_is_out_for_both() -> None:
    first, second = make_route(A, B), make_route(A, C, endpoint="ep-2")
    replicas = make_replicas(first, second)
    fail(replicas, A)
    assert (list(replicas.in_turn(first)), list(replicas.in_turn(second))) == ([B], [C])


def test_request_of_an_older_snapshot_keeps_its_replicas_but_for_those_that_are_out() -> None:
    old = make_route(A, B)
    replicas = make_replicas(old)
    fail(replicas, A)
    use(replicas, make_route(A, C))
    assert list(replicas.in_turn(old)) == [B]


def test_share_of_one_that_is_back_grows_with_time() -> None:
    """Ledger: HEA-07."""
    route = make_route(A, B)
    replicas = make_replicas(route)
    fail(replicas, A)
    bring_back(replicas, A, now=100.0)
    assert replicas.by_state() == {"up": 1, "returning": 1, "out": 0}
    counts = []
    for second in (0, RETURN_SECONDS / 2, RETURN_SECONDS):
        replicas.tick(100.0 + second)
        counts.append(Counter(replicas.in_turn(route)[0] for _ in range(1000))[A])
    assert counts[0] < 120
    assert counts[0] < counts[1] < counts[2] == 500
    assert replicas.by_state() == {"up": 2, "returning": 0, "out": 0}


def test_one_that_is_just_back_and_fails_again_goes_out_again() -> None:
    route = make_route(A, B)
    replicas = make_replicas(route)
    fail(replicas, A)
    bring_back(replicas, A)
    fail(replicas, A)
    replicas.tick(RETURN_SECONDS)
    assert list(replicas.in_turn(route)) == [B]
    assert replicas.by_state() == {"up": 1, "returning": 0, "out": 1}


def test_route_says_how_it_is_balanced() -> None:
    route = replace(make_route(A, B), balance="least-loaded")
    replicas = make_replicas(route)
    replicas.began(A)
    assert [replicas.in_turn(route)[0] for _ in range(3)] == [B] * 3
    replicas.began(B)
    replicas.began(B)
    assert [replicas.in_turn(route)[0] for _ in range(3)] == [A] * 3
    replicas.left(A)
    replicas.left(A)  # of a request that began before the replica was known
    replicas.answered(B, 200)
    assert replicas.in_turn(route)[0] == A


def test_targets_that_are_no_replicas_are_nobody_s_business() -> None:
    replicas = make_replicas(make_route(A))
    fail(replicas, C)
    assert replicas.by_state() == {"up": 1, "returning": 0, "out": 0}


def test_thousands_of_routes_are_taken_up_a_few_at_a_time_and_the_first_to_be_asked_for_at_once() -> None:
    """A snapshot that is taken into use holds up no request."""
    backends = [Backend(host=f"r{n}.example.com", address="10.0.0.1:443") for n in range(1000)]
    routes = [make_route(backend, endpoint=f"ep-{n}") for n, backend in enumerate(backends)]
    replicas = make_replicas(*routes)
    assert not is_surveyed(replicas, 1000)
    assert sum(replicas.by_state().values()) < 100
    assert list(replicas.in_turn(routes[999])) == [backends[999]]
    fail(replicas, backends[999])
    ticks = 0
    while not is_surveyed(replicas, 1000):
        replicas.tick(0.0)
        ticks += 1
    assert ticks >= 10
    assert replicas.by_state() == {"up": 999, "returning": 0, "out": 1}
    assert list(replicas.in_turn(routes[999])) == []


def test_replica_that_goes_out_while_a_snapshot_is_taken_up_is_out_afterwards() -> None:
    others = [make_route(Backend(host=f"r{n}.example.com", address="a:1"), endpoint=f"ep-{n}") for n in range(200)]
    first, last = make_route(A, B, endpoint="ep-first"), make_route(A, C, endpoint="ep-last")
    replicas = make_replicas(first, last)
    use(replicas, first, *others, last)
    fail(replicas, A)
    while not is_surveyed(replicas, 202):
        replicas.tick(0.0)
    assert (list(replicas.in_turn(first)), list(replicas.in_turn(last))) == ([B], [C])
    use(replicas, last)
    replicas.tick(0.0)
    assert {replica.backend for replica in replicas.known} == {A, C}


def test_what_is_gone_is_forgotten_though_snapshots_come_faster_than_they_are_taken_up() -> None:
    replicas = Replicas("round-robin", Counters())
    for version in range(20):
        backends = [Backend(host=f"r{version}-{n}.example.com", address="10.0.0.1:443") for n in range(500)]
        routes = [make_route(backend, endpoint=f"ep-{n}") for n, backend in enumerate(backends)]
        use(replicas, *routes)
        assert all(replicas.in_turn(route) for route in routes)
        replicas.tick(0.0)
    assert len(list(replicas.known)) <= 2500
