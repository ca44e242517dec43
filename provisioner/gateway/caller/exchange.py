"""One request from the moment it can be routed to the last byte of its answer.

Finds the route, waits for its turn, has the request sent, and passes the answer on as it comes, no faster than the
caller takes it. However it ends, it ends in `_settle`: the place in the queue is given up and the notes are handed to
accounting, once; after a good end that is when the caller's system has taken the last byte. The caller's leaving
cancels the replica's work. `connection` makes one per request; it knows the connection only as a `Caller`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from provisioner.domain.snapshot import Backend, Route
from provisioner.domain.usage import Outcome
from provisioner.gateway.caller.answer import Answer
from provisioner.gateway.caller.caller import Caller
from provisioner.gateway.caller.engine_error import EngineError, Verdict
from provisioner.gateway.caller.header import wants_trailers
from provisioner.gateway.caller.request import Request
from provisioner.gateway.caller.sending import send
from provisioner.gateway.caller.upload import Upload
from provisioner.gateway.datapath import DataPath
from provisioner.gateway.queueing.allowances import NO_CHARGE
from provisioner.gateway.queueing.queue import Place
from provisioner.gateway.refusal import (
    Refusal,
    RefusedError,
    draining,
    no_disk,
    timed_out,
    upstream_broke,
    upstream_silent,
)
from provisioner.gateway.replica.answer_head import AnswerHead
from provisioner.gateway.replica.asking import Asking
from provisioner.gateway.replica.rescued import Hold
from provisioner.gateway.replica.upstream import UpstreamConnection
from provisioner.gateway.usage.answer import AnswerReader, answer_reader
from provisioner.gateway.usage.tally import Tally

_FOR_EVER: Final = float("inf")
_OK: Final = Outcome.OK  # bound once: reading a member of an enum is slow on this path
_FAILED: Final = Outcome.UPSTREAM_FAILED


class Exchange:
    """Carries one request to one replica and its answer back."""

    __slots__ = (
        "_answer",
        "_asking",
        "_asks_for_usage",
        "_caller",
        "_charge",
        "_engine_error",
        "_has_copied",
        "_hold",
        "_is_settled",
        "_model",
        "_path",
        "_place",
        "_quiet_since",
        "_reader",
        "_request",
        "_route",
        "_tally",
        "_time",
        "_upload",
    )

    _reader: AnswerReader
    _route: Route

    def __init__(self, path: DataPath, caller: Caller, request: Request) -> None:
        self._path = path
        self._caller = caller
        self._request = request
        self._time = path.time
        now = path.time()
        self._tally = Tally(path.time_of_day.at(now), now, request.access.key, request.path, request.request_id)
        self._place: Place | None = None
        self._hold: Hold | None = None
        self._charge = NO_CHARGE
        self._asking = Asking(path.pool, path.replicas, path.counters, request.request_id)
        self._model = ""
        self._asks_for_usage = False
        self._upload: Upload | None = None
        """What moves the request's body, while it has not been handed on whole."""
        self._answer: Answer | None = None
        self._engine_error: EngineError | None = None
        self._quiet_since = 0.0
        self._has_copied = False
        self._is_settled = False

    def begin(self) -> None:
        """Finds the route and takes a place in its queue, or refuses the request."""
        request, path, tally = self._request, self._path, self._tally
        try:
            tally.bytes_in = request.body.received_bytes
            tally.alias = alias = request.body.model()
            directory, key = request.access
            self._route = tally.route = route = directory.route(key, alias)
            if route.tenant:  # what a lane's engine can do is for the engine to say
                request.check_kind(route.kind)
            if route.max_tokens is not None:
                request.body.check_max_tokens(route.max_tokens)
            self._charge = path.allowances.take(key, route)
            self._place = place = path.queue.enter(route, path.claims.read(key, request.withheld), self)
        except RefusedError as error:
            self._refuse(error.refusal, Outcome.SHED if error.refusal.status == 503 else Outcome.REFUSED)
            return
        if place.has_turn:
            self._go(route)
        else:
            self._caller.wait_at_most(_FOR_EVER)

    # What the queue calls (its `Waiter`).

    def begin_turn(self) -> None:
        """The slot is there: the request goes on its way, to the replicas that the route has by now."""
        directory = self._path.directory
        self._go(self._route if directory is None else directory.present(self._route))

    def shed(self, refusal: Refusal) -> None:
        """Nothing will come of it: the slot, or a replica, will not be there in time."""
        self._refuse(refusal, Outcome.SHED)

    # What a rescue calls (its `Rescued`).

    def go_on(self, route: Route) -> None:
        """The route has replicas again, in a newer directory."""
        self._go(route)

    def go_outside(self, target: Backend, model: str) -> None:
        """The request is allowed to go to `target` as `model`."""
        self._send((target,), model)

    # What the caller's connection calls.

    def continue_body(self) -> None:
        """More of the request's body has arrived."""
        if self._upload is not None:
            self._upload_on(self._upload)

    def spoil(self, refusal: Refusal) -> None:
        """What arrives of the request's body cannot be used."""
        self._stop()
        self._end_badly(refusal, Outcome.REFUSED)

    def cancel(self) -> None:
        """The caller has gone: whatever is going on for it ends now."""
        self._stop()
        self._settle(Outcome.CLIENT_CANCELLED)

    def cut_off(self) -> None:
        """The gateway ends, and can wait no longer: the caller is told as well as can be."""
        is_sent = self._asking.backend is not None
        self._stop()
        self._end_badly(draining(), Outcome.TIMED_OUT if is_sent else Outcome.SHED)

    def pause(self) -> None:
        """The caller cannot keep up."""
        if self._asking.upstream is not None:
            self._asking.upstream.pause_reading()

    def resume(self) -> None:
        """The caller has taken all that was written."""
        if self._has_copied:
            self._end_well()
        elif self._asking.upstream is not None:
            self._asking.upstream.resume_reading()

    def is_for(self) -> str | None:
        """The id of the endpoint that it is for; None while that is not known."""
        return self._tally.route.endpoint if self._tally.route is not None else None

    def waits_at(self) -> str | None:
        """The id of the endpoint for whose slot or replica it waits; None before and after."""
        if self._place is None or self._asking.backend is not None:
            return None
        return self._route.endpoint if self._hold is not None or not self._place.has_turn else None

    def expire(self) -> None:
        """The deadline has passed."""
        if self._has_begun_answer() and self._caller.is_slow:
            self._path.counters.caller_left += 1  # it does not read: the replica, which waits for it, has not failed
            self._stop()
            self._end_badly(upstream_silent(), Outcome.CLIENT_CANCELLED)
        elif self._upload is not None and not self._upload.is_blocked:
            self.spoil(timed_out("request body"))
        else:
            upstream = self._asking.upstream
            self._asking.broke("HeaderTimeout" if self._tally.first_byte is None else "Silence")
            if upstream is not None:
                upstream.abandon()
            self._end_badly(upstream_silent(), Outcome.TIMED_OUT)

    def keep_alive(self, now: float) -> None:
        """Puts a comment into a stream of events that has been quiet for too long at `now`, the loop's time."""
        answer, interval = self._answer, self._path.limits.comment_seconds
        if answer is None or not interval or now < self._quiet_since + interval or self._caller.is_slow:
            return
        if comment := answer.comment():
            self._quiet_since = now
            self._caller.write(comment)

    # What the asking calls (its `Asker`), and then the replica's connection (its `Receiver`).

    def reached(self, upstream: UpstreamConnection) -> None:
        """A replica takes the request."""
        self._upload, self._asks_for_usage = send(self._path, self._request, self._model, upstream, self)
        if self._caller.is_slow:
            upstream.pause_reading()
        self.continue_body()

    def resume_sending(self) -> None:
        """The replica has taken what was written of the request's body."""
        self.continue_body()

    def unreachable(self) -> None:
        """None of the replicas can be reached; nothing was sent."""
        self._end_badly(upstream_broke(), Outcome.UPSTREAM_FAILED)

    def begin_answer(self, head: AnswerHead) -> None:
        """Takes the head of the answer."""
        self._tally.first_byte = self._time()
        if head.status >= 400:
            self._engine_error = EngineError(head)
            self._caller.wait_at_most(self._path.limits.silence_seconds)
        else:
            self._pass_on(head)

    def relay(self, body: bytes, *, complete: bool) -> None:
        """Passes on at once what has arrived of the answer."""
        answer, caller = self._answer, self._caller
        if answer is None:
            self._read_engine_error(body, complete=complete)
            return
        if not complete:
            caller.wait_at_most(self._path.limits.silence_seconds)
            self._quiet_since = self._time()
            caller.write(answer.next(body))
            self._note_first_token()
            return
        data = answer.last(body)
        self._note_first_token()
        self._asking.answered(answer.status)
        self._upload = None
        caller.write(data)
        if caller.is_slow:
            self._has_copied = True
            caller.wait_at_most(self._path.limits.silence_seconds)
        else:
            self._end_well()

    def take_trailers(self, lines: Sequence[bytes]) -> None:
        """Takes the lines of the answer's trailers, which go to a caller who said that it wants them."""
        if self._answer is not None and wants_trailers(self._request.withheld):
            self._answer.take_trailers(lines)

    def upstream_failed(self, reason: str) -> None:
        """The replica broke off. What has been sent once is not sent again."""
        self._asking.broke(reason)
        self._end_badly(upstream_broke(), Outcome.UPSTREAM_FAILED)

    # Inside.

    def _go(self, route: Route) -> None:
        """Sends the request on its way on `route`."""
        self._route = self._tally.route = route
        backends = self._path.replicas.in_turn(route, is_routable=self._request.suits_router)
        if backends:
            self._send(backends, route.upstream_model)
            return
        try:
            self._hold = self._path.rescue.begin(route, self._tally, self)
        except RefusedError as error:
            self._refuse(error.refusal, Outcome.SHED)
        else:
            if self._hold is not None:
                self._caller.wait_at_most(_FOR_EVER)

    def _pass_on(self, head: AnswerHead) -> None:
        """Begins an answer that the caller gets as it is."""
        path, request = self._path, self._request
        self._tally.status = head.status
        path.counters.count_answer(head.status)
        hides_usage = self._asks_for_usage and head.length is None  # one with a length passes whole
        self._reader = reader = answer_reader(head.form, hides_usage=hides_usage)
        self._answer = Answer(
            request,
            head,
            reader,
            more_lines=self._charge.lines,
            keep_alive=request.keep_alive and not path.is_draining and self._upload is None,
        )

    def _send(self, backends: Sequence[Backend], model: str) -> None:
        self._caller.wait_at_most(self._path.limits.upstream_header_seconds)
        self._model = model
        self._asking.begin(self, backends, self._route.endpoint)

    def _note_first_token(self) -> None:
        if self._tally.first_token is None and self._reader.has_content:
            self._tally.first_token = self._time()

    def _upload_on(self, upload: Upload) -> None:
        limits, caller = self._path.limits, self._caller
        try:
            upload.go_on()
        except OSError:
            self.spoil(no_disk())
            return
        self._tally.bytes_in = upload.received_bytes
        caller.hold_reading(is_held=upload.is_backed_up)
        if upload.is_done:
            self._upload = None
        if not self._has_begun_answer():
            caller.wait_at_most(limits.upstream_header_seconds if upload.is_done else limits.body_seconds)

    def _has_begun_answer(self) -> bool:
        return self._answer is not None and self._answer.has_begun

    def _read_engine_error(self, body: bytes, *, complete: bool) -> None:
        error = self._engine_error
        self._caller.wait_at_most(self._path.limits.silence_seconds)
        if error is None or (verdict := error.read(body, complete=complete)) is Verdict.HELD:
            return
        self._engine_error = None
        if verdict is Verdict.PASSED:
            self._pass_on(error.head)
            self.relay(error.held, complete=complete)
            return
        if not complete and self._asking.upstream is not None:
            self._asking.upstream.abandon()
        self._asking.answered(error.head.status)
        self._refuse(error.refusal(), Outcome.UPSTREAM_FAILED)

    def _stop(self) -> None:
        if self._hold is not None:
            self._hold.leave()
        self._asking.cancel()

    def _settle(self, outcome: Outcome) -> None:
        """The request is over: its place is free and its notes are handed on. A second time does nothing."""
        if self._is_settled:
            return
        self._is_settled = True
        tally, place = self._tally, self._place
        tally.backend = self._asking.backend
        self._place = self._hold = None  # they know us: who is done must not be kept by them
        if place is not None:
            place.leave()
        if self._answer is not None:
            tally.bytes_out = self._answer.bytes_out
            tally.tokens = tokens = self._reader.tokens
            if (used := (tokens.prompt or 0) + (tokens.completion or 0)) > 0:
                self._path.allowances.spend(self._charge, used)
        ended = self._time()
        if tally.route is not None:
            self._path.last_used[tally.route.endpoint] = ended
        self._path.accounting.record(tally, outcome, ended)

    def _refuse(self, refusal: Refusal, outcome: Outcome) -> None:
        self._tally.status = refusal.status
        self._settle(outcome)
        self._caller.refuse(refusal)

    def _end_well(self) -> None:
        answer = self._answer
        is_good = answer is not None and answer.status < 500
        self._settle(_OK if is_good else _FAILED)
        self._caller.finish(keep_alive=answer is not None and answer.keep_alive)

    def _end_badly(self, refusal: Refusal, outcome: Outcome) -> None:
        answer = self._answer
        if answer is None or not answer.has_begun:
            self._refuse(refusal, outcome)
            return
        if not self._caller.is_slow and (event := answer.error_event(refusal)):
            self._caller.write(event)
        self._settle(outcome)
        self._caller.abort(visibly=answer.ends_with_connection)
