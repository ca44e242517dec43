"""What finished requests took and used, as histograms under the names of OpenTelemetry's GenAI conventions.

The names, units, labels and bounds are those of the conventions since version 1.37, as Prometheus spells them
(https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/), with the endpoint's id as one label more. A label
is never what a caller wrote: endpoints and their models are those of the snapshot, and beyond a bound they are summed
up. The accounting adds each request; the operator's page prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from provisioner.domain.exposition import Histogram, Metric, histogram_lines
from provisioner.domain.usage import Outcome
from provisioner.gateway.usage.tally import Tally

_OK: Final = Outcome.OK  # bound once: reading a member of an enum is slow
_SERIES_LIMIT: Final = 200
_REST: Final = "other"
"""Stands for every endpoint beyond the limit."""

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(float(4**power) for power in range(14))
_FIRST_TOKEN_SECONDS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
)
_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)

_LABELS = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "endpoint")
_PROVIDER: Final = "tenantry"

DURATION: Final = Metric(
    name="gen_ai_server_request_duration_seconds",
    kind="histogram",
    help="From the beginning of a request to the last byte of its answer; error_type is how it failed, empty if not.",
    labels=(*_LABELS, "error_type"),
)
FIRST_TOKEN: Final = Metric(
    name="gen_ai_server_time_to_first_token_seconds",
    kind="histogram",
    help="From the beginning of a request to the first piece of its answer, of streams that succeeded.",
    labels=_LABELS,
)
OUTPUT_TOKEN: Final = Metric(
    name="gen_ai_server_time_per_output_token_seconds",
    kind="histogram",
    help="From one token to the next, after the first one, of streams that succeeded and told their tokens.",
    labels=_LABELS,
)
TOKENS: Final = Metric(
    name="gen_ai_client_token_usage",
    kind="histogram",
    help="Tokens of a request, as far as its engine told them.",
    labels=(*_LABELS, "gen_ai_token_type"),
)
MEASURED = (DURATION, FIRST_TOKEN, OUTPUT_TOKEN, TOKENS)

_OPERATIONS: Final = {
    b"/v1/chat/completions": "chat",
    b"/v1/responses": "chat",
    b"/v1/completions": "text_completion",
    b"/v1/embeddings": "embeddings",
    b"/v1/audio/transcriptions": "transcription",
}


_Sample = tuple[tuple[str, ...], Histogram]


class _Series:
    __slots__ = ("first_token", "input", "labels", "output", "output_token", "seconds")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.seconds: dict[str, Histogram] = {}
        self.first_token = Histogram.empty(_FIRST_TOKEN_SECONDS)
        self.output_token = Histogram.empty(_TOKEN_SECONDS)
        self.input = Histogram.empty(_TOKENS)
        self.output = Histogram.empty(_TOKENS)


class Measures:
    """The histograms of one gateway."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = {}

    def observe(self, tally: Tally, outcome: Outcome, ended: float) -> None:
        """Adds a finished request that named an endpoint; one that did not is nobody's."""
        route, tokens = tally.route, tally.tokens
        if route is None:
            return
        operation = _OPERATIONS.get(tally.path, _REST)
        series = self._series.get((route.endpoint, operation))
        if series is None:
            series = self._begin(route.endpoint, operation, route.upstream_model or route.alias)
        is_answered = outcome is _OK
        is_ok = is_answered and tally.status < 400
        error = "" if is_ok else str(tally.status) if is_answered else outcome.value
        seconds = series.seconds.get(error)
        if seconds is None:
            seconds = series.seconds[error] = Histogram.empty(_SECONDS)
        seconds.observe(ended - tally.began)
        if tokens.prompt is not None:
            series.input.observe(tokens.prompt)
        if tokens.completion is not None:
            series.output.observe(tokens.completion)
        if is_ok and tally.first_token is not None:
            series.first_token.observe(tally.first_token - tally.began)
            if tokens.completion is not None and tokens.completion > 1:
                series.output_token.observe((ended - tally.first_token) / (tokens.completion - 1))

    def lines(self) -> Iterator[str]:
        """The lines of the page, of histograms that have something in them."""
        every = list(self._series.values())
        yield from histogram_lines(
            DURATION, [((*one.labels, error), seconds) for one in every for error, seconds in one.seconds.items()]
        )
        yield from histogram_lines(FIRST_TOKEN, _told((one.labels, one.first_token) for one in every))
        yield from histogram_lines(OUTPUT_TOKEN, _told((one.labels, one.output_token) for one in every))
        kinds = (((*one.labels, kind), getattr(one, kind)) for one in every for kind in ("input", "output"))
        yield from histogram_lines(TOKENS, _told(kinds))

    def _begin(self, endpoint: str, operation: str, model: str) -> _Series:
        if len(self._series) >= _SERIES_LIMIT and endpoint != _REST:
            rest = self._series.get((_REST, operation))
            return rest or self._begin(_REST, operation, _REST)
        series = self._series[endpoint, operation] = _Series((operation, _PROVIDER, model, endpoint))
        return series


def _told(samples: Iterable[_Sample]) -> list[_Sample]:
    return [sample for sample in samples if any(sample[1].counts)]
