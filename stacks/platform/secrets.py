"""Secrets in rendered objects: rendering leaves a mark where one belongs, here an Output takes its place.

So no secret passes through a template, and Pulumi knows of each where it stands. Called by the platform's components.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pulumi

from provisioner.rendering.platform import SECRETS

MARKS: Mapping[str, str] = {name: f"REPLACE_ME[{name}]" for name in SECRETS}
"""What rendering is told instead of each secret."""

_MARK = re.compile(r"REPLACE_ME\[(\w+)\]")


def named_secrets(rendered: Any) -> frozenset[str]:
    """The secrets whose marks stand anywhere in rendered objects."""
    return frozenset(_MARK.findall(json.dumps(rendered)))


def with_secrets(value: Any, secrets: Mapping[str, pulumi.Output[str]]) -> Any:
    """A JSON value with every mark replaced. Alone it becomes the secret itself; inside of a text, where it stands
    between double quotes, the secret as JSON and YAML write it there."""
    if isinstance(value, Mapping):
        return {key: with_secrets(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [with_secrets(item, secrets) for item in value]
    if not isinstance(value, str) or not (names := _MARK.findall(value)):
        return value
    if value == MARKS[names[0]]:
        return secrets[names[0]]
    return pulumi.Output.all(**{name: secrets[name] for name in names}).apply(lambda given: _filled(value, given))


def _filled(text: str, given: Mapping[str, str]) -> str:
    return _MARK.sub(lambda mark: json.dumps(given[mark[1]])[1:-1], text)
