"""Reads REQUEST.yaml: a mapping and the line of each field, so that a finding can point at it.

The text is read as the catalog's files are: the same strict YAML, of which JSON is a part.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provisioner.catalog.document import MAX_BYTES, parse_document
from provisioner.catalog.fields import dotted
from provisioner.domain.errors import RejectedError


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request as written: `lines` maps a dotted field path to its line, from 1."""

    name: str
    body: Mapping[str, Any]
    lines: Mapping[str, int]


_HINT = "`tenantry endpoint create --help` shows a complete REQUEST.yaml"


def read_request(path: Path, *, hint: str = _HINT) -> RequestFile:
    """Read a YAML or JSON file, or standard input for `-`. Raises RejectedError that names file and line; `hint` says
    where somebody without a file finds one."""
    name, text = _read_text(path, hint)
    document = parse_document(text, file=name)
    if not isinstance(document.value, dict):
        raise RejectedError(f"reading {name}: wants fields, one on a line", reason="NoFields", hint=hint)
    lines = {dotted(field): line for field, line in document.lines.items() if field}
    return RequestFile(name=name, body=document.value, lines=lines)


def _read_text(path: Path, hint: str) -> tuple[str, str]:
    name = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else _read_bounded(path)
        if len(data) > MAX_BYTES:
            raise RejectedError(f"reading {name}: longer than {MAX_BYTES} bytes", reason="TooLarge")
        return name, data.decode()
    except OSError as error:
        raise RejectedError(f"reading {name}: {error.strerror}", reason="NoFile", hint=hint) from error
    except UnicodeDecodeError as error:
        raise RejectedError(f"reading {name}: not UTF-8 at byte: {error.start}", reason="NotUtf8") from error


def _read_bounded(path: Path) -> bytes:
    """A file, or the pipe of a process substitution, which is nameless; a named pipe may never end."""
    if stat.S_ISFIFO(path.stat().st_mode) and path.resolve().exists():
        raise RejectedError(f"reading {path}: it is no regular file", reason="NoFile", hint="use - for standard input")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
