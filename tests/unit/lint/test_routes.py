"""Hostnames, durations and paths as Gateway API reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.lint.joins.model_names import sounds_like_inference
from provisioner.lint.rules.routing._durations import seconds
from provisioner.lint.rules.routing._hostnames import hosts_meet
from provisioner.lint.rules.routing._routes import is_inference_path, is_quiet_path

_HOSTS = st.sampled_from(
    [None, "acme.com", "chat.acme.com", "a.b.acme.com", "*.acme.com", "*.b.acme.com", "*.com", "other.org"]
)


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("chat.acme.com", "*.acme.com", True),
        ("a.b.acme.com", "*.acme.com", True),
        ("acme.com", "*.acme.com", False),
        ("chat.acme.com", "chat.acme.org", False),
        ("*.b.acme.com", "*.acme.com", True),
        ("*.acme.com", "*.other.com", False),
        ("chatacme.com", "*.acme.com", False),
        (None, "chat.acme.com", True),
    ],
)
def test_a_wildcard_covers_every_name_below_its_domain(one: str | None, other: str, meets: bool) -> None:
    assert hosts_meet(one, other) is meets


@given(_HOSTS, _HOSTS)
def test_meeting_is_mutual(one: str | None, other: str | None) -> None:
    assert hosts_meet(one, other) == hosts_meet(other, one)


@pytest.mark.parametrize(
    ("written", "read"),
    [("0s", 0), ("1h30m", 5400), ("500ms", 0.5), ("10m", 600), ("1.5h", None), ("600", None), ("1d", None), ("", None)],
)
def test_durations_are_those_of_gateway_api(written: str, read: float | None) -> None:
    assert seconds(written) == read


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/chat/completions", "/openai/v1", "/v1/audio/transcriptions"])
def test_paths_of_a_model_servers_api_are_recognised(path: str) -> None:
    assert is_inference_path(path)
    assert not is_quiet_path(path)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/v1/health/ready"])
def test_paths_that_answer_at_once_are_recognised(path: str) -> None:
    assert is_quiet_path(path)


@pytest.mark.parametrize(("name", "sounds"), [("vllm-chat", True), ("qwen3-14b", True), ("grafana", False)])
def test_names_that_are_about_models_are_recognised(name: str, sounds: bool) -> None:
    assert sounds_like_inference(name) is sounds
