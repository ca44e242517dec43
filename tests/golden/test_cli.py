"""Whole transcripts of offline commands: the words of the command line are reviewed like code.

A case is `cli/<case>.txt`: the command after `$ `, the exit code, then what went to standard output and standard error.
`make golden` rewrites them.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from provisioner.cli.main import main

FOLDER = Path(__file__).parent / "cli"
SITE = FOLDER / "site.yaml"
CASES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_transcript_is_as_reviewed(
    case: Path, update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTRY_STATE", str(tmp_path))
    monkeypatch.setenv("TENANTRY_SITE", str(SITE))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(FOLDER)
    command = case.read_text().partition("\n")[0]
    code = main(shlex.split(command.removeprefix("$ tenantry")))
    captured = capsys.readouterr()
    transcript = f"{command}\nexit code: {code}\n----- stdout\n{captured.out}----- stderr\n{captured.err}"
    transcript = transcript.replace(str(tmp_path), "[STATE]")
    if update_golden:
        case.write_text(transcript)
    assert transcript == case.read_text()
