"""Runs commands and reads what they print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from provisioner.cli.main import main


@dataclass(frozen=True, slots=True)
class Sight:
    """Somebody who looks at a terminal."""

    capsys: pytest.CaptureFixture[str]

    def read(self) -> Any:
        """What was printed since it was read last."""
        return self.capsys.readouterr()

    def told(self, *line: str) -> str:
        """The data of a command that succeeds."""
        self.read()
        status = main(line)
        printed = self.read()
        assert status == 0, printed.err
        return str(printed.out)

    def json(self, *line: str) -> Any:
        """The same, as programs read it."""
        return json.loads(self.told(*line, "-o", "json"))

    def refused(self, *line: str) -> str:
        """What a command says whose request is at fault."""
        self.read()
        assert main(line) == 1
        return str(self.read().err)
