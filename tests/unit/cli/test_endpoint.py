"""What `tenantry endpoint chat` refuses before it talks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from provisioner.cli import endpoint
from provisioner.cli.main import main


def shown(kind: str) -> Any:
    return SimpleNamespace(
        tenant="acme", name="ears", url="https://x.example.com/v1", model=SimpleNamespace(kind=kind, alias="ears")
    )


def test_chatting_with_a_speech_endpoint_is_refused_with_the_way_to_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger: CLI-02"""
    monkeypatch.setenv("TENANTRY_API_KEY", "tnt-secret")
    monkeypatch.setattr(endpoint, "send", lambda _: shown("transcription"))
    assert main(["endpoint", "chat", "acme/ears", "Hello"]) == 1
    err = capsys.readouterr().err
    assert "it serves transcription, not chat" in err
    assert "/v1/audio/transcriptions" in err


def test_a_key_that_cannot_be_one_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTRY_API_KEY", "same\ntnt-secret")
    assert main(["endpoint", "chat", "chat", "Hello", "--url", "http://127.0.0.1:1/v1"]) == 1
    assert "tnt-secret" not in capsys.readouterr().err


@pytest.mark.parametrize("key", ["tnt-secret", ""])
def test_a_customers_view_is_enough_to_chat_and_a_key_is_not_asked_for(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger: SEC-08"""
    monkeypatch.setenv("TENANTRY_API_KEY", key)
    seen = SimpleNamespace(name="chat", url="http://127.0.0.1:1/v1", model="chat")
    monkeypatch.setattr(endpoint, "send", lambda _: seen)
    assert main(["endpoint", "chat", "acme/chat", "Hello"]) == 5
    assert "calling `http://127.0.0.1:1/v1`" in capsys.readouterr().err
