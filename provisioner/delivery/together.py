"""Does together what is asked for at the same time: whoever comes while a turn is going on shares the next one.

Called by `git`, whose pushes cost a handful of processes however many commits they carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from provisioner.domain.errors import TenantryError

AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")

_AT_ONCE = 32


class Together(Generic[AskedT, AnswerT]):
    """Calls `turn` with all that was asked for meanwhile; it answers each, or says by an error why not. Where it fails
    as a whole, each is tried alone, so that one that cannot be done keeps no other from it."""

    def __init__(self, turn: Callable[[Sequence[AskedT]], Awaitable[Sequence[AnswerT | TenantryError]]]) -> None:
        self._turn = turn
        self._asked: list[tuple[AskedT, asyncio.Future[AnswerT]]] = []
        self._turning = asyncio.Lock()

    async def ask(self, asked: AskedT) -> AnswerT:
        """The answer, or the error, for this one."""
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._asked.append((asked, answer))
        try:
            async with self._turning:
                if not answer.done():
                    await self._take_turn(answer)
            return await answer
        finally:
            answer.cancel()  # nothing where it is answered

    async def _take_turn(self, mine: asyncio.Future[AnswerT]) -> None:
        """A turn for this one and all that wait; those whose caller has gone are left out."""
        waiting = [entry for entry in self._asked if not entry[1].cancelled()]
        first = next(entry for entry in waiting if entry[1] is mine)
        taken = [first, *(entry for entry in waiting if entry is not first)][:_AT_ONCE]
        self._asked = [entry for entry in waiting if entry not in taken]
        try:
            answers = await self._answers([asked for asked, _ in taken])
        except BaseException:  # this caller was cancelled in the middle: the others go on
            self._asked = [*(entry for entry in taken if entry is not first), *self._asked]
            raise
        for (_, answer), found in zip(taken, answers, strict=True):
            if answer.done():
                continue
            if isinstance(found, TenantryError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

    async def _answers(self, asked: Sequence[AskedT]) -> Sequence[AnswerT | TenantryError]:
        try:
            return await self._turn(asked)
        except TenantryError as error:
            if len(asked) == 1:
                return [error]
            return [answer for one in asked for answer in await self._answers([one])]
