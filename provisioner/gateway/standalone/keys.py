"""The keys file of a gateway without a control plane: JSON lines, each with the digest of one key and whose it is.

`{"sha256": "<hex of the whole key>", "tenant": "acme", "team": "a", "name": "ci"}`; team and name may be left out. What
is wrong in it is told by line, never by content: somebody may have put a key where its digest belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from provisioner.domain.snapshot import Allowance, KeyDigest

Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[\x21-\x7e]+$")]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{64}$")]
    tenant: Name
    team: Name | None = None
    name: str | None = None


class KeysError(Exception):
    """The content is no list of keys: the message names the line and what is wrong there."""


def parse_keys(content: bytes, allowance: Allowance | None) -> tuple[KeyDigest, ...]:
    """The keys that `content` lists, each with `allowance`. Raises `KeysError`."""
    keys: dict[str, KeyDigest] = {}
    for number, line in _lines(content):
        try:
            told = _Line.model_validate_json(line)
        except ValidationError as error:
            raise KeysError(f"line {number}: {_told(error)}") from None  # it shows what the line holds
        digest = told.sha256.lower()
        if digest in keys:
            raise KeysError(f"line {number}: its key stands further up already")
        keys[digest] = KeyDigest(
            digest=digest, tenant=told.tenant, team=told.team, name=told.name or "", allowance=allowance
        )
    return tuple(keys.values())


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _told(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    match first["type"]:
        case "json_invalid" | "model_type" | "dict_type":
            return "it is not a JSON object"
        case "extra_forbidden":
            return "it has a field besides sha256, tenant, team and name"
        case "missing":
            return f"`{field}` is missing"
        case _ if field == "sha256":
            return "`sha256` wants the 64 hexadecimal digits of the key's SHA-256"
        case _:
            return f"`{field}` is not the text that it should be"
