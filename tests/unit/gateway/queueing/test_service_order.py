"""The order of service against its rules, in any order of events: who comes, who leaves, time, slots."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from provisioner.gateway.queueing.service_order import ServiceOrder, Ticket

AGING = 50.0
CAP = 2
TENANTS = st.sampled_from(["a", "b", "c"])
PEOPLE = st.sampled_from([None, None, "ann", "bob"])


def ticket(tenant: str, person: str | None = None) -> Ticket:
    """A ticket of that tenant, and of that person if it asks for an interactive place."""
    return Ticket(tenant, None if person is None else (tenant, person))


def order(slots: float = 1, depth: int = 8, wait_seconds: float = 100.0) -> ServiceOrder[Ticket]:
    """An empty order."""
    made: ServiceOrder[Ticket] = ServiceOrder(background_wait_seconds=AGING, interactive_per_principal=CAP)
    made.slots, made.depth, made.wait_seconds = slots, depth, wait_seconds
    return made


def served(made: ServiceOrder[Ticket], now: float) -> list[Ticket]:
    """Everybody who waits, in the order in which one slot serves them."""
    found = []
    while (next_one := made.serve_next(now)) is not None:
        found.append(next_one)
        made.leave(next_one)
    return found


class Service(RuleBasedStateMachine):
    """Plays callers, time and snapshots, and holds every answer of the order against the rules."""

    tickets: Bundle[Ticket] = Bundle("tickets")

    @initialize(slots=st.integers(1, 3), depth=st.integers(0, 6), wait=st.sampled_from([60.0, 200.0]))
    def start(self, slots: int, depth: int, wait: float) -> None:
        self.order = order(slots, depth, wait)
        self.now = 0.0
        self.present: list[Ticket] = []
        """Who waits, in the order of arrival."""
        self.active: list[Ticket] = []
        self.passed_over: dict[tuple[bool, str, str], bool] = {}
        """By class, tenant and other tenant: the first was served in its turn while the second waited."""

    @rule(target=tickets, tenant=TENANTS, person=PEOPLE)
    def enter(self, tenant: str, person: str | None) -> Ticket:
        comer = ticket(tenant, person)
        before = list(self.present)
        has_room = len(before) < self.order.depth
        displaced = self.order.enter(comer, self.now)
        if comer.has_turn:
            assert not before
            assert len(self.active) < self.order.slots
            assert displaced is None
            self.active.append(comer)
            return comer
        assert len(self.active) >= self.order.slots
        waiting_of = {name: sum(one.tenant == name for one in before) for name in "abc"}
        if displaced is comer:
            assert not has_room
            assert max(waiting_of.values()) - waiting_of[tenant] < 2
            assert not comer.is_waiting
            return comer
        assert (displaced is None) == has_room
        if displaced is not None:
            assert waiting_of[displaced.tenant] == max(waiting_of.values()) >= waiting_of[tenant] + 2
            assert not (displaced.is_waiting or displaced.has_turn)
            self.present.remove(displaced)
            self._forget_turns()
        self.present.append(comer)
        return comer

    @rule(leaver=tickets)
    def leave(self, leaver: Ticket) -> None:
        """Anybody, also one who has left before."""
        self.order.leave(leaver)
        self.order.leave(leaver)
        for group in (self.present, self.active):
            if leaver in group:
                group.remove(leaver)
        self._forget_turns()
        self._serve()

    @rule(leaver=consumes(tickets))
    def finish(self, leaver: Ticket) -> None:
        self.leave(leaver)

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        over = self.order.expire(self.now)
        expected = [one for one in self.present if self.now - one.arrived >= self.order.wait_seconds]
        assert sorted(map(id, over)) == sorted(map(id, expected))
        self.present = [one for one in self.present if one not in over]
        self._forget_turns()

    @rule(slots=st.sampled_from([1.0, 2.0, 3.0, math.inf]), depth=st.integers(0, 6))
    def resize(self, slots: float, depth: int) -> None:
        self.order.slots, self.order.depth = slots, depth
        self._serve()

    def _serve(self) -> None:
        while (chosen := self.order.serve_next(self.now)) is not None:
            assert len(self.active) < self.order.slots
            self._check_choice(chosen)
            self.present.remove(chosen)
            self.active.append(chosen)
            self._forget_turns()

    def _check_choice(self, chosen: Ticket) -> None:
        alike = [one for one in self.present if one.is_interactive == chosen.is_interactive]
        assert chosen is next(one for one in alike if one.tenant == chosen.tenant)
        background = [one for one in self.present if not one.is_interactive]
        due = [one for one in background if self.now - one.arrived >= AGING]
        has_rivals = any(one.is_interactive for one in self.present)
        if chosen.is_interactive:
            assert all(one.arrived > chosen.arrived for one in due)
        elif has_rivals:
            assert chosen is background[0]
            assert chosen in due
            return
        for other in {one.tenant for one in alike} - {chosen.tenant}:
            key = (chosen.is_interactive, chosen.tenant, other)
            assert not self.passed_over.get(key), "served twice while another tenant waited"
            self.passed_over[key] = True
            self.passed_over.pop((chosen.is_interactive, other, chosen.tenant), None)

    def _forget_turns(self) -> None:
        """A tenant who no longer waits has not been passed over, and comes last when it waits again."""
        waiting = {(one.is_interactive, one.tenant) for one in self.present}
        self.passed_over = {
            key: True for key in self.passed_over if (key[0], key[1]) in waiting and (key[0], key[2]) in waiting
        }

    @invariant()
    def nobody_is_lost(self) -> None:
        if not hasattr(self, "order"):
            return
        queued = self.order.queued()
        interactive = sum(one.is_interactive for one in self.present)
        assert queued == {"interactive": interactive, "background": len(self.present) - interactive}
        assert self.order.active == len(self.active)
        assert self.order.waiting == len(self.present)
        assert all(one.has_turn for one in self.active)
        assert all(one.is_waiting and not one.has_turn for one in self.present)
        assert not self.present or len(self.active) >= self.order.slots

    @invariant()
    def nobody_holds_more_interactive_places_than_the_cap(self) -> None:
        if not hasattr(self, "order"):
            return
        held = [one.person for one in (*self.present, *self.active) if one.is_interactive]
        assert all(held.count(person) <= CAP for person in held)


TestService = Service.TestCase
TestService.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_tenant_alone_may_use_the_whole_depth_and_gives_way_to_another() -> None:
    made = order(slots=1, depth=4)
    running, *waiting = (ticket("greedy") for _ in range(5))
    assert [made.enter(one, 0.0) for one in (running, *waiting)] == [None] * 5
    late = ticket("greedy")
    assert made.enter(late, 0.0) is late
    modest = [ticket("modest") for _ in range(3)]
    assert made.enter(modest[0], 0.0) is waiting[3]
    assert made.enter(modest[1], 0.0) is waiting[2]
    assert made.enter(modest[2], 0.0) is modest[2], "both wait with two now"
    made.leave(running)
    assert [one.tenant for one in served(made, 0.0)] == ["greedy", "modest", "greedy", "modest"]


def test_interactive_gives_way_last() -> None:
    made = order(slots=1, depth=3)
    made.enter(ticket("a"), 0.0)
    person, background = ticket("a", "ann"), ticket("a")
    for one in (background, person, ticket("a", "bob")):
        made.enter(one, 0.0)
    assert made.enter(ticket("b"), 0.0) is background


def test_person_gets_the_place_of_a_request_that_ends() -> None:
    made = order(slots=9)
    mine = [ticket("a", "ann") for _ in range(CAP + 1)]
    for one in mine:
        made.enter(one, 0.0)
    assert [one.is_interactive for one in mine] == [True, True, False]
    made.leave(mine[2])
    made.leave(mine[0])
    again, more = ticket("a", "ann"), ticket("a", "ann")
    made.enter(again, 0.0)
    made.enter(more, 0.0)
    assert (again.is_interactive, more.is_interactive) == (True, False)


def test_aged_background_goes_before_newer_interactive_only() -> None:
    """Ledger: ADM-10."""
    made = order(slots=1, depth=9, wait_seconds=1000.0)
    running = ticket("a")
    made.enter(running, 0.0)
    older, aged, newer = ticket("a", "ann"), ticket("b"), ticket("a", "bob")
    made.enter(older, 1.0)
    made.enter(aged, 2.0)
    made.enter(newer, 3.0)
    made.leave(running)
    assert served(made, 2.0 + AGING) == [older, aged, newer]


def test_young_background_waits_for_every_interactive() -> None:
    made = order(slots=1, depth=9)
    running = ticket("a")
    made.enter(running, 0.0)
    background, interactive = ticket("b"), ticket("a", "bob")
    made.enter(background, 1.0)
    made.enter(interactive, 2.0)
    made.leave(running)
    assert served(made, 0.9 + AGING) == [interactive, background]
