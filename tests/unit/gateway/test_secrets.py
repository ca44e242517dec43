"""Secrets by name: read from files, read again when they change, never told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from provisioner.gateway import secrets
from provisioner.gateway.secrets import Secrets


@pytest.fixture(autouse=True)
def never_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_FRESH_SECONDS", 0.0)


def test_secret_is_read_by_name_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "priority-acme").write_text("hunter2\n")
    (tmp_path / "elsewhere.key").write_text("swordfish")
    known = Secrets(tmp_path, {"lane general": tmp_path / "elsewhere.key"})
    assert known.read("priority-acme") == b"hunter2"
    assert known.read("lane general") == b"swordfish"


def test_secret_that_is_replaced_is_read_again_and_one_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    """Ledger: FAL-06."""
    file = tmp_path / "key"
    file.write_text("one")
    known = Secrets(tmp_path)
    assert known.read("key") == b"one"
    file.write_text("another")
    assert known.read("key") == b"another"
    file.unlink()
    assert known.read("key") is None


def test_file_is_not_looked_at_by_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_FRESH_SECONDS", 60.0)
    (tmp_path / "key").write_text("one")
    known = Secrets(tmp_path)
    assert known.read("key") == b"one"
    (tmp_path / "key").unlink()
    assert known.read("key") == b"one"


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/b", "..", ".", "", ".hidden", "a\n", "x" * 254])
def test_name_is_that_of_a_file_in_the_folder_and_nothing_else(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (tmp_path / "outside").write_text("not yours")
    assert Secrets(folder).read(name) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"a\r\nHost: b", b"\xff", b"x" * 9000], ids=repr)
def test_what_is_no_secret_is_not_used_and_told_once_without_what_it_holds(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger: FAL-06."""
    (tmp_path / "key").write_bytes(content)
    known = Secrets(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert known.read("key") is None
        assert known.read("key") is None
    assert len(caplog.records) == 1
    assert "key" in caplog.text
    assert "Host" not in caplog.text
    assert "xxx" not in caplog.text


def test_what_is_derived_stands_in_for_a_file_and_goes_behind_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger: ADM-14. A missing file is no trouble then; one that cannot be used is told, as always."""
    known = Secrets(tmp_path, derived=lambda name: b"made" if name == "priority-acme" else None)
    assert known.read("priority-acme") == b"made"
    assert caplog.text == ""
    file = tmp_path / "priority-acme"
    file.write_text("own")
    assert known.read("priority-acme") == b"own"
    file.write_text("two\nlines")
    assert known.read("priority-acme") == b"made"
    assert "priority-acme" in caplog.text
    assert known.read("partner-key") is None
    assert Secrets(derived=lambda _: b"made").read("priority-acme") == b"made"
