"""Scripts in containers: lines of one command that have come apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items
from provisioner.lint.world import Container, World

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


def _scripts(container: Container) -> Iterator[tuple[FieldPath, str]]:
    """The texts that a container's shell runs."""
    words = [(path, item) for part in ("command", "args") for path, item in items(container.value, part)]
    if words and re.search(r"(^|/)(ba|da|a)?sh$", str(words[0][1])):
        flags = [position for position, (_, item) in enumerate(words) if re.fullmatch(r"-[a-z]*c", str(item))]
        for path, item in words[flags[0] + 1 : flags[0] + 2] if flags else ():
            if isinstance(item, str) and not has_hole(item):
                yield (*container.path, *path), item


@rule("script-quote-open", Severity.ERROR)
def script_quote_open(world: World) -> Iterator[Hit]:
    """A quote in a container's script is not closed.

    The shell ends with `unexpected EOF while looking for matching` quote before it runs anything.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            for path, script in _scripts(container):
                if "<<" not in script and "$'" not in script and _is_open(script):
                    message = (
                        f"running script of {container.name}: a quote is not closed: `{' '.join(script.split())[:60]}`"
                    )
                    yield Hit(at=pod.owner, path=path, message=message, fix="close it")


def _is_open(script: str) -> bool:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, "#"
    try:
        list(lexer)
    except ValueError as error:
        return "quotation" in str(error)
    return False


@rule("script-ends-in-background", Severity.ERROR)
def script_ends_in_background(world: World) -> Iterator[Hit]:
    """The last command of a container's script goes to the background.

    The shell ends at once and the container with it; what was started is killed and started over and over.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            for path, script in _scripts(container) if not container.is_init else ():
                if re.search(r"(?<!&)&\s*$", script) and not re.search(r"\bwait\b", script):
                    message = f"running script of {container.name}: its last command goes to the background: `&`"
                    yield Hit(at=pod.owner, path=path, message=message, fix="remove the `&`, or end with `wait`")
