"""What people silenced, and why: `lint.tenantry.io/ignore: "<rule-id>: <reason>"` on an object, or in a comment.

One entry per line, or separated by `;`. An object inside of a text is silenced by the object around it too; values in
a file of their own by a comment. An entry without a reason silences nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from provisioner.catalog.fields import FieldPath
from provisioner.lint.rule import Located
from provisioner.lint.values import text
from provisioner.lint.world import Object, TenantValues, World
from provisioner.lint.yaml_text import YamlDocument

ANNOTATION = "lint.tenantry.io/ignore"
PATH: FieldPath = ("metadata", "annotations", ANNOTATION)

_ENTRY_END = re.compile(r"\n|;(?=\s*[a-z0-9-]+\s*:)")
_COMMENT = re.compile(rf"^[ \t]*#[ \t]*{re.escape(ANNOTATION)}:[ \t]*(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """One entry: where it stands, the rule's id and the reason, either of which may be missing or wrong."""

    at: Located
    path: FieldPath
    rule: str
    reason: str


def silences(world: World) -> Iterator[Silence]:
    """Every entry in the world."""
    for found in world.objects:
        if (written := text(found.value, *PATH)) is not None:
            yield from _entries(written, found, PATH)
    for tenant in world.tenants:
        if tenant.template is None and isinstance(tenant.document, YamlDocument):
            for comment in _COMMENT.finditer(tenant.document.text):
                yield from _entries(comment[1], tenant, ())


def covers(silence: Silence, at: Located) -> bool:
    """Whether an entry is about something: the object it stands on, what is inside of it, the file of the values."""
    if silence.at is at:
        return True
    if isinstance(at, Object):
        return at.inside is not None and covers(silence, at.inside)
    return isinstance(at, TenantValues) and at.template is not None and covers(silence, at.template)


def _entries(written: str, at: Located, path: FieldPath) -> Iterator[Silence]:
    for entry in _ENTRY_END.split(written):
        rule, _, reason = entry.partition(":")
        if entry.strip():
            yield Silence(at=at, path=path, rule=rule.strip(), reason=reason.strip().strip("\"'"))
