"""Typed client of the REST API: `AsyncClient`, and `Client` for programs without an event loop.

Both carry out the same calls and flows, which the modules beside this one describe. They turn problem details back into
the domain's errors, so that a caller handles one kind of error wherever it stands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from provisioner.client.call import TIMEOUT_SECONDS, Call, Flow, NextLine, Pause, Reply, Step, Stream, Tell
from provisioner.client.problems import error_of
from provisioner.domain.errors import InvariantError, RetryableError, TenantryError

AnswerT = TypeVar("AnswerT")


class AsyncClient:
    """A client of the API at `url` with a `key`. Use it as an asynchronous context manager.

    `send` and `each` raise RejectedError, NotFoundError, ConflictError or RetryableError as the API tells, and
    RetryableError (`Unreachable`) when nothing answers within ten seconds.
    """

    def __init__(self, url: str, key: str, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._http = httpx2.AsyncClient(**_options(url, key), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def send(self, call: Call[AnswerT]) -> AnswerT:
        """Carry out one call; its answer."""
        try:
            answer = await self._http.request(**_request(call))
        except httpx2.TransportError as error:
            raise _unreachable(self._http.base_url, error) from error
        return _read(call, answer)

    async def each(self, flow: Flow[AnswerT]) -> AsyncIterator[AnswerT]:
        """Carry out a flow; what it tells, one by one."""
        async with _AsyncLines(self._http) as lines:
            step = _begin(flow)
            while step is not None:
                answer: Any = None
                if isinstance(step, Tell):
                    yield step.value
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    try:
                        answer = await (self.send(step) if isinstance(step, Call) else lines.answer(step))
                    except TenantryError as error:
                        step = _go_on(flow, error=error)
                        continue
                step = _go_on(flow, answer)

    async def collect(self, flow: Flow[AnswerT]) -> list[AnswerT]:
        """Everything that a flow tells."""
        return [value async for value in self.each(flow)]


class Client:
    """A client of the API at `url` with a `key`. Use it as a context manager. Raises as `AsyncClient` does."""

    def __init__(self, url: str, key: str, *, transport: httpx2.BaseTransport | None = None) -> None:
        self._http = httpx2.Client(**_options(url, key), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def send(self, call: Call[AnswerT]) -> AnswerT:
        """Carry out one call; its answer."""
        try:
            answer = self._http.request(**_request(call))
        except httpx2.TransportError as error:
            raise _unreachable(self._http.base_url, error) from error
        return _read(call, answer)

    def each(self, flow: Flow[AnswerT]) -> Iterator[AnswerT]:
        """Carry out a flow; what it tells, one by one."""
        with _Lines(self._http) as lines:
            step = _begin(flow)
            while step is not None:
                answer: Any = None
                if isinstance(step, Tell):
                    yield step.value
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
                else:
                    try:
                        answer = self.send(step) if isinstance(step, Call) else lines.answer(step)
                    except TenantryError as error:
                        step = _go_on(flow, error=error)
                        continue
                step = _go_on(flow, answer)

    def collect(self, flow: Flow[AnswerT]) -> list[AnswerT]:
        """Everything that a flow tells."""
        return list(self.each(flow))


class _AsyncLines(AsyncExitStack):
    """The stream that a flow has open, if any."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        super().__init__()
        self._http = http
        self._lines: AsyncIterator[str] | None = None

    async def answer(self, step: Stream | NextLine) -> str | None:
        """Open a stream instead of the one that is open, or read on in that one."""
        try:
            if isinstance(step, NextLine):
                return await anext(self._lines, None) if self._lines else None
            await self.aclose()
            answer = await self.enter_async_context(self._http.stream("GET", step.path, **_streamed(step)))
            if not answer.is_success:
                await answer.aread()
            self._lines = answer.aiter_lines()
        except httpx2.TransportError as error:
            raise _unreachable(self._http.base_url, error) from error
        _require_success(answer)
        return None


class _Lines(ExitStack):
    """The stream that a flow has open, if any."""

    def __init__(self, http: httpx2.Client) -> None:
        super().__init__()
        self._http = http
        self._lines: Iterator[str] | None = None

    def answer(self, step: Stream | NextLine) -> str | None:
        """Open a stream instead of the one that is open, or read on in that one."""
        try:
            if isinstance(step, NextLine):
                return next(self._lines, None) if self._lines else None
            self.close()
            answer = self.enter_context(self._http.stream("GET", step.path, **_streamed(step)))
            if not answer.is_success:
                answer.read()
            self._lines = answer.iter_lines()
        except httpx2.TransportError as error:
            raise _unreachable(self._http.base_url, error) from error
        _require_success(answer)
        return None


def _options(url: str, key: str) -> dict[str, Any]:
    # Proxies of the environment are for the internet; the API is ours, often on loopback. Plain HTTP shows no
    # certificate; to load the authorities that would vouch for one takes longer than most commands' request.
    return {
        "base_url": f"{url.rstrip('/')}/v1",
        "headers": {"Authorization": f"Bearer {key}"},
        "timeout": TIMEOUT_SECONDS,
        "trust_env": False,
        "verify": not url.startswith("http://"),
    }


def _request(call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "json": call.body,
        "params": call.query,
        "headers": call.headers,
        "timeout": call.timeout_seconds,
    }


def _streamed(stream: Stream) -> dict[str, Any]:
    return {
        "params": stream.query,
        "headers": stream.headers,
        "timeout": httpx2.Timeout(TIMEOUT_SECONDS, read=stream.silence_seconds),
    }


def _require_success(answer: httpx2.Response) -> None:
    if not answer.is_success:
        raise error_of(answer.status_code, answer.content, answer.headers.get("Retry-After"))


def _read(call: Call[AnswerT], answer: httpx2.Response) -> AnswerT:
    _require_success(answer)
    try:
        return call.read(Reply(answer.content, answer.headers.get("ETag", "")))
    except ValueError as error:
        raise InvariantError(
            f"reading the API's answer to {call.method} {answer.request.url.path}: not in the form of this version",
            hint="use a client of the server's version",
        ) from error


def _begin(flow: Flow[AnswerT]) -> Step[AnswerT] | None:
    return next(flow, None)


def _go_on(flow: Flow[AnswerT], answer: Any = None, *, error: TenantryError | None = None) -> Step[AnswerT] | None:
    """What a flow wants next; None at its end."""
    try:
        return flow.send(answer) if error is None else flow.throw(error)
    except StopIteration:
        return None


def _unreachable(url: object, error: httpx2.TransportError) -> RetryableError:
    return RetryableError(
        f"calling the API at `{url}`: {error or type(error).__name__}",
        reason="Unreachable",
        hint="is `tenantry serve` or `tenantry demo` running, and does TENANTRY_URL name it?",
    )
