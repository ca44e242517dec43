"""REQUEST.yaml as people write it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provisioner.catalog.document import MAX_BYTES
from provisioner.cli.requestfile import read_request
from provisioner.domain.errors import RejectedError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "REQUEST.yaml"
    path.write_text(text)
    return path


def test_each_field_is_known_by_its_line(tmp_path: Path) -> None:
    request = read_request(write(tmp_path, "name: chat\nscaling:\n  minReplicas: 1\n  maxReplicas: 2\n"))
    assert request.body == {"name": "chat", "scaling": {"minReplicas": 1, "maxReplicas": 2}}
    assert request.lines == {"name": 1, "scaling": 2, "scaling.minReplicas": 3, "scaling.maxReplicas": 4}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: chat\nname: other\n", "REQUEST.yaml:2: name: "),
        ("name: [chat\n", "REQUEST.yaml:2: "),
        ("team: yes\n", "REQUEST.yaml:1: team: "),
        ("a: &a [x]\nb: [*a, *a]\n", "REQUEST.yaml:2: b[0]: "),
    ],
    ids=["duplicate", "unclosed", "ambiguous", "alias"],
)
def test_a_broken_file_says_where(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RejectedError) as raised:
        read_request(write(tmp_path, text))
    assert any(says in str(finding) for finding in raised.value.findings)


@pytest.mark.parametrize("text", ["- name\n", "", "chat\n"], ids=["list", "empty", "text"])
def test_a_file_without_fields_shows_the_way(tmp_path: Path, text: str) -> None:
    with pytest.raises(RejectedError, match="wants fields") as raised:
        read_request(write(tmp_path, text))
    assert raised.value.hint


def test_a_request_in_json_is_read_too(tmp_path: Path) -> None:
    request = read_request(write(tmp_path, '{"name": "chat",\n "serving": {"contextSize": 1024}}'))
    assert request.body == {"name": "chat", "serving": {"contextSize": 1024}}
    assert request.lines["serving.contextSize"] == 2


def test_a_missing_file_names_the_file_and_shows_the_way(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=r"REQUEST\.yaml") as raised:
        read_request(tmp_path / "REQUEST.yaml")
    assert raised.value.hint


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="longer than"):
        read_request(write(tmp_path, "#" * (MAX_BYTES + 1)))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "REQUEST.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RejectedError, match="not UTF-8"):
        read_request(path)


def test_a_named_pipe_is_refused_and_that_of_a_shell_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RejectedError, match="no regular file"):
        read_request(tmp_path / "pipe")
    reading, writing = os.pipe()
    os.write(writing, b"name: chat\n")
    os.close(writing)
    try:
        assert read_request(Path(f"/dev/fd/{reading}")).body == {"name": "chat"}
    finally:
        os.close(reading)
