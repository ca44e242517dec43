"""Scripts in containers: lines of one command that have come apart."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items
from provisioner.lint.world import World

_FLAG = re.compile(r"^\s*--?[A-Za-z][\w-]*(?:[= ]|$)")
_BLIND_SLASH = re.compile(r"\\[ \t]+$")
_OPENS = re.compile(r"<<-?\s*[\"']?\w+|[\"'({\[|&\\]\s*$")


def _broken(script: str) -> str | None:
    """The first line that begins with a flag though the line before it has ended."""
    before = ""
    for line in script.splitlines():
        if _FLAG.match(line) and before.strip() and not _OPENS.search(before):
            return line.strip()
        if _BLIND_SLASH.search(line):
            return line.strip()
        if line.strip() and not line.lstrip().startswith("#"):
            before = line
    return None


@rule("script-command-comes-apart", Severity.ERROR)
def script_command_comes_apart(world: World) -> Iterator[Hit]:
    """A line of a container's script begins with a flag, and the line before it does not end in a backslash.

    The shell runs the command without the rest, and then looks for a program called `--max-model-len`. A backslash with
    a space behind it joins no lines either.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            words = [(path, item) for part in ("command", "args") for path, item in items(container.value, part)]
            is_shell = bool(words) and re.search(r"(^|/)(ba|da|a)?sh$", str(words[0][1])) is not None
            for path, item in words[1:] if is_shell else ():
                if isinstance(item, str) and "\n" in item and "<<" not in item:
                    line = _broken(item)
                    if line is not None:
                        message = f"running script of {container.name}: the line stands alone: `{line[:60]}`"
                        fix = "end each line before it in a backslash, with nothing behind it"
                        yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)
