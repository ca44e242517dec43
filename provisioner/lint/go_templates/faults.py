"""Why a Go template is not rendered: because it is wrong, or because this interpreter does not know enough."""

from __future__ import annotations


class TemplateFault(Exception):
    """Helm would refuse the template, whatever the values; `line` is from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


class Unknown(Exception):
    """Nobody can tell here what comes out: something is not known, or takes too long. No fault of the template."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message
