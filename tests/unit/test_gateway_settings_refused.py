"""What in the environment stops the start of a gateway, with the name of the setting."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from provisioner.settings.gateway import read_gateway_config
from tests.unit.test_gateway_settings import ALONE, controlled, refused

__all__ = ["controlled"]


@pytest.mark.parametrize(
    "value",
    [
        "engine:8000",
        "ftp://a",
        "http://",
        "http://a/llm/v1",
        "http://a?x",
        "http://a#x",
        "http://a:x",
        "http://a b:1",
        "http://a\t:1",
        "http://ä:1",
        "http://a:80/v1,http://a",
        "http://a,,",
        ",",
    ],
)
def test_bad_backend_stops_the_start_with_its_name(value: str) -> None:
    assert "BACKEND_CODER" in refused({**ALONE, "BACKEND_CODER": value})


def test_password_in_a_backend_is_refused_and_not_shown() -> None:
    told = refused({"BACKEND_GENERAL": "http://me:hunter2@engine:8000"})
    assert "BACKEND_GENERAL" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CONCURRENCY_GENERAL", "-1"),
        ("CONCURRENCY_GENERAL", "two"),
        ("CONCURRENCY_GENERAL", "1.5"),
        ("CONCURRENCY_GENERAL", "٣"),
        ("QUEUE_DEPTH_CODER", "9" * 5000),
        ("QUEUE_GROUP_GENERAL", "a b"),
        ("QUEUE_MAX_WAIT", "15"),
        ("QUEUE_MAX_WAIT", "0s"),
        ("RETRY_AFTER", "-1s"),
        ("UPSTREAM_HEADER_TIMEOUT", "1 hour"),
        ("MODELS_GENERAL", "a b"),
        ("MODELS_GENERAL", ","),
        ("UPSTREAM_MODEL_GENERAL", "a,b"),
        ("UPSTREAM_API_KEY_GENERAL_FILE", "/nowhere/key"),
        ("TEAMS_GENERAL", "a"),
        ("TENANTRY_TEAM_SCOPING", "yes"),
        ("TENANTRY_ANONYMOUS", "1"),
        ("RATE_LIMIT_RPM", "many"),
        ("MAX_TOKENS_LIMIT", "-5"),
        ("INFERENCE_DECODE_TOK_S", "0"),
        ("INFERENCE_DECODE_TOK_S", "nan"),
        ("PRIORITY_HEADER", "X Priority"),
        ("PRIORITY_HEADER", "x-inference-identity"),
        ("PRIORITY_HEADER", "Authorization"),
        ("IDENTITY_HEADER", "cookie"),
        ("TENANTRY_USAGE_FILE", "/nowhere/usage.jsonl"),
        ("TENANTRY_USAGE_FILE", "/"),
        ("BACKEND_CODR", "http://a"),
        ("BACKEND_EXTRA", "http://a"),
        ("CONCURRENCY_GENERL", "2"),
        ("UPSTREAM_API_KEY_CODRE_FILE", "key"),
        ("UPSTREAM_API_KEY_CODER", "sk-1"),
        ("CONCURENCY_CODER", "2"),
        ("QUEUE_MAX_WIAT", "1s"),
        ("RATE_LIMIT_RMP", "60"),
        ("TENANTRY_KEY_FILE", "keys"),
        ("MAX_HEADERS", "0"),
        ("TENANTRY_MAX_BODY_BYTES", "0"),
        ("USAGE_INJECT", "never"),
        ("BALANCE", "random"),
        ("BALANCE_CODER", "Round-Robin"),
        ("ADMIN_ADDR", "9090"),
        ("LISTEN_ADDR", "8080"),
        ("ADMIN_ADDR", "127.0.0.1:8080"),
        ("ADMIN_ADDR", ":8080"),
        ("TENANTRY_TLS_CERT", "cert.pem"),
        ("TENANTRY_CLIENT_CERT", "cert.pem"),
    ],
)
def test_bad_setting_stops_the_start_with_its_name(variable: str, value: str) -> None:
    """Ledger: GW-15."""
    told = refused({**ALONE, variable: value})
    assert variable in told
    assert len(told) < 300


def test_variables_of_other_programs_are_left_alone(controlled: Mapping[str, str]) -> None:
    """Kubernetes tells every pod of the services in its namespace, for example of `backend` and `backend-general`."""
    others = {
        "BACKEND_GENERAL_SERVICE_HOST": "10.0.0.8",
        "BACKEND_GENERAL_PORT": "tcp://10.0.0.8:80",
        "MODELS_EMBEDDING_PORT": "tcp://10.0.0.8:80",
        "BACKEND_SERVICE_HOST": "10.0.0.7",
        "BACKEND_PORT": "tcp://10.0.0.7:80",
        "BACKEND_PORT_80_TCP": "tcp://10.0.0.7:80",
        "MODELS_DIR": "/models",
        "TEAMS_WEBHOOK": "https://example.com/hook",
        "BALANCE_PORT": "tcp://10.0.0.9:80",
        "PROBE_TIMEOUT_SECONDS": "2",
        "SSH_ASKPASS": "/usr/bin/ssh-askpass",
        "TENANTRY_STATE_DIR": "/state",
    }
    read_gateway_config({**ALONE, **others})
    read_gateway_config({**controlled, **others, "BACKEND_CODR": "http://a"})


def test_misspelt_setting_stops_a_gateway_with_a_control_plane_too(controlled: Mapping[str, str]) -> None:
    assert "DRAIN_TIMEUOT" in refused({**controlled, "DRAIN_TIMEUOT": "1s"})
