"""Reads REQUEST.yaml: a mapping and the line of each field, so that a finding can point at it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from provisioner.domain.errors import RejectedError

LARGEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request as written: `lines` maps a dotted field path to its line, from 1."""

    name: str
    body: Mapping[str, Any]
    lines: Mapping[str, int]


def read_request(path: Path) -> RequestFile:
    """Read a YAML or JSON file, or standard input for `-`. Raises RejectedError that names file and line."""
    name, text = _read_text(path)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="rt")
    try:
        node = reader.load(StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RejectedError(f"reading {name}:{line}: {error.problem}", reason="BadYaml", hint=_HINT) from error
    except (YAMLError, ValueError) as error:
        raise RejectedError(f"reading {name}: not YAML: {error}", reason="BadYaml", hint=_HINT) from error
    if not isinstance(node, dict):
        raise RejectedError(f"reading {name}: wants fields, found: {type(node).__name__}", reason="BadYaml", hint=_HINT)
    lines: dict[str, int] = {}
    body = _plain(node, "", lines)
    return RequestFile(name=name, body=body, lines=lines)


_HINT = "`tenantry endpoint create --help` shows a complete REQUEST.yaml"


def _read_text(path: Path) -> tuple[str, str]:
    name = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read(LARGEST_BYTES + 1) if str(path) == "-" else _read_bounded(path)
        if len(data) > LARGEST_BYTES:
            raise RejectedError(f"reading {name}: longer than {LARGEST_BYTES} bytes", reason="TooLarge")
        return name, data.decode()
    except OSError as error:
        raise RejectedError(f"reading {name}: {error.strerror}", reason="NoFile", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise RejectedError(f"reading {name}: not UTF-8 at byte: {error.start}", reason="BadYaml") from error


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_BYTES + 1)


def _plain(node: Any, path: str, lines: dict[str, int]) -> Any:
    if isinstance(node, dict):
        plain = {}
        for key, value in node.items():
            field = f"{path}.{key}" if path else str(key)
            marks = getattr(getattr(node, "lc", None), "data", None) or {}
            if key in marks:
                lines[field] = marks[key][0] + 1
            plain[str(key)] = _plain(value, field, lines)
        return plain
    if isinstance(node, list):
        return [_plain(item, f"{path}.{index}", lines) for index, item in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)
