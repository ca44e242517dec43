"""What `tenantry plan` decides of an engine's own signals and flags."""

from __future__ import annotations

import pytest

from provisioner.domain.finding import Severity
from tests.unit.admission.forecasts import forecast, rules, with_serving


@pytest.mark.parametrize(
    ("model", "signal", "known"),
    [
        ("Qwen3-14B", "time-to-first-token", "gpu-utilization, gpu-memory, gateway-queue"),
        ("Qwen3-14B", "combined", "gpu-utilization, gpu-memory, gateway-queue"),
        ("nvidia/parakeet-tdt-0.6b-v3", "queue-depth", "gpu-utilization, gpu-memory, gateway-queue"),
    ],
)
def test_signal_that_the_engine_does_not_publish_is_refused_with_those_that_it_has(
    model: str, signal: str, known: str
) -> None:
    raw = {**with_serving(autoscalingSignal=signal), "model": model, "profile": "dev"}
    [found] = [one for one in forecast(raw).findings if one.severity is Severity.ERROR]
    assert (found.rule, found.field) == ("signal-not-published", "serving.autoscalingSignal")
    assert str(found.hint).endswith(known)


@pytest.mark.parametrize("signal", ["queue-depth", "running-requests", "time-to-first-token", "combined"])
def test_vllm_publishes_every_signal(signal: str) -> None:
    assert rules(with_serving(autoscalingSignal=signal)) == set()


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("--enable-prefx-caching", "did you mean --enable-prefix-caching?"),
        ("--no-enable_prefx_caching", "did you mean"),
        ("--multi-step-stream-outputs", "remove it"),
    ],
)
def test_flag_that_vllm_does_not_have_is_warned_of_as_the_linter_does(argument: str, hint: str) -> None:
    made = forecast(with_serving(extraArgs=[argument]))
    assert made.plan is not None
    [found] = made.findings
    assert (found.rule, found.severity, found.field) == ("unknown-flag", Severity.WARNING, "serving.extraArgs[0]")
    assert hint in str(found.hint)


@pytest.mark.parametrize("argument", ["--enable-prefix-caching", "--no-enable-prefix-caching", "-O3", "--task"])
def test_flag_that_the_image_has_is_not_warned_of(argument: str) -> None:
    found = rules(with_serving(extraArgs=[argument]), severity=Severity.WARNING)
    assert found == ({("unknown-flag", "serving.extraArgs[0]")} if argument == "--task" else set())


def test_flags_of_an_engine_that_nobody_keeps_a_list_of_are_left_alone() -> None:
    raw = {**with_serving(extraArgs=["--paged-moon"]), "model": "Qwen3-14B", "profile": "dev"}
    assert not rules(raw, severity=Severity.WARNING)
