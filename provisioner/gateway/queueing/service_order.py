"""Who is served next at one group's slots: interactive before background, tenants in turn, nobody left behind.

`queue` keeps one of these for each group and tells it who comes and who goes. Pure: it starts nothing and looks at no
clock. The rules:

- At most `slots` are served at once and at most `depth` wait, none longer than `wait_seconds`.
- Interactive goes before background. Of one verified person at most `interactive_per_principal` requests are
  interactive, waiting and served ones together; the rest is background.
- A background request that has waited `background_wait_seconds` goes before every interactive one that is newer.
- Within a class tenants take turns, and a tenant's requests keep their order.
- When the queue is full, a newcomer whose tenant has fewer waiting takes the place of the newest, background first, of
  the tenant who has most; but for that the newcomer is turned away. So a tenant alone may use the whole depth, and
  cannot keep others out.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from provisioner.gateway.queueing.line import Line


class Ticket:
    """A request at a group, from its arrival until it leaves. `has_turn` while it is at a slot.

    `person` is the tenant and the verified person who ask for an interactive place; None for background.
    """

    __slots__ = ("arrived", "has_turn", "is_interactive", "is_waiting", "person", "tenant")

    def __init__(self, tenant: str, person: tuple[str, str] | None = None) -> None:
        self.tenant = tenant
        self.person = person
        self.arrived = 0.0
        self.has_turn = False
        self.is_waiting = False
        self.is_interactive = False


T = TypeVar("T", bound=Ticket)


class ServiceOrder(Generic[T]):
    """The slots of one group and the line in front of them. Times are seconds of one steady clock."""

    __slots__ = (
        "_background",
        "_held",
        "_interactive",
        "active",
        "background_wait_seconds",
        "depth",
        "interactive_per_principal",
        "slots",
        "wait_seconds",
        "waiting",
    )

    def __init__(self, *, background_wait_seconds: float, interactive_per_principal: int) -> None:
        self.slots = 1.0
        """How many are served at once; infinity is no bound."""
        self.depth = 0
        self.wait_seconds = 0.0
        self.background_wait_seconds = background_wait_seconds
        self.interactive_per_principal = interactive_per_principal
        self.active = 0
        """How many are at a slot."""
        self.waiting = 0
        self._interactive: Line[T] = Line()
        self._background: Line[T] = Line()
        self._held: dict[tuple[str, str], int] = {}
        """Interactive requests of each person, waiting and served."""

    def enter(self, ticket: T, now: float) -> T | None:
        """Takes `ticket` to a slot (`has_turn`) or into the line.

        Gives the ticket for which there is no room, if there is one: `ticket` itself, or one that waited and gives way
        to it.
        """
        if ticket.person is not None:
            held = self._held.get(ticket.person, 0)
            if held < self.interactive_per_principal:
                self._held[ticket.person] = held + 1
                ticket.is_interactive = True
        if self.active < self.slots and not self.waiting:
            self.active += 1
            ticket.has_turn = True
            return None
        displaced = self._yielding_to(ticket) if self.waiting >= self.depth else None
        if displaced is not None:
            self.leave(displaced)
        if displaced is not ticket:
            ticket.arrived = now
            ticket.is_waiting = True
            self.waiting += 1
            self._line_of(ticket).add(ticket)
        return displaced

    def leave(self, ticket: T) -> None:
        """Frees the place of `ticket`, wherever it is; a second time does nothing."""
        if ticket.has_turn:
            ticket.has_turn = False
            self.active -= 1
        elif ticket.is_waiting:
            ticket.is_waiting = False
            self.waiting -= 1
            self._line_of(ticket).remove(ticket)
        if ticket.is_interactive and ticket.person is not None:
            ticket.is_interactive = False
            held = self._held[ticket.person] - 1
            if held:
                self._held[ticket.person] = held
            else:
                del self._held[ticket.person]

    def serve_next(self, now: float) -> T | None:
        """Gives the free slot to whoever is next; None when there is no slot or nobody."""
        if not self.waiting or self.active >= self.slots:
            return None
        ticket = self._next(now)
        if ticket is None:
            return None
        self._line_of(ticket).serve(ticket)
        self.waiting -= 1
        self.active += 1
        ticket.is_waiting = False
        ticket.has_turn = True
        return ticket

    def expire(self, now: float) -> list[T]:
        """Takes out those who have waited too long."""
        over: list[T] = []
        for line in (self._interactive, self._background):
            while (ticket := line.oldest()) is not None and now - ticket.arrived >= self.wait_seconds:
                self.leave(ticket)
                over.append(ticket)
        return over

    def queued(self) -> dict[str, int]:
        """How many wait, by class."""
        return {"interactive": len(self._interactive), "background": len(self._background)}

    def _line_of(self, ticket: T) -> Line[T]:
        return self._interactive if ticket.is_interactive else self._background

    def _next(self, now: float) -> T | None:
        interactive = self._interactive.first()
        if interactive is None:
            return self._background.first()
        oldest = self._background.oldest()
        if oldest is None or now - oldest.arrived < self.background_wait_seconds:
            return interactive
        return oldest if oldest.arrived <= interactive.arrived else interactive

    def _yielding_to(self, ticket: T) -> T:
        """Who gives way in a full line."""

        def waiting_of(tenant: str) -> int:
            return self._interactive.count_of(tenant) + self._background.count_of(tenant)

        tenants = (*self._background.tenants(), *self._interactive.tenants())
        most = max(tenants, key=waiting_of, default=ticket.tenant)
        if waiting_of(most) - waiting_of(ticket.tenant) < 2:  # to change places would only turn the difference round
            return ticket
        return self._background.newest_of(most) or self._interactive.newest_of(most) or ticket
