"""The applications in the text of a RayService. Pure; no rules stand here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.lint.values import has_hole, items, text
from provisioner.lint.world import Object
from provisioner.lint.yaml_text import parse_documents

APPLICATIONS = ("spec", "serveConfigV2")


def applications(found: Object) -> Iterator[Any]:
    """The applications of a RayService, as far as its text can be read."""
    written = text(found.value, *APPLICATIONS)
    documents = list(parse_documents(written, file=found.file)) if written and not has_hole(written) else []
    for _, application in items(documents[0].value, "applications") if len(documents) == 1 else ():
        yield application
