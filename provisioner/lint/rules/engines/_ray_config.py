"""The applications in the text of a RayService. Pure; no rules stand here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provisioner.lint.values import has_hole, items, text
from provisioner.lint.world import Object
from provisioner.lint.yaml_text import parse_documents

APPLICATIONS = ("spec", "serveConfigV2")


def configuration(found: Object) -> Any:
    """What stands in the text of a RayService, None where it cannot be read."""
    written = text(found.value, *APPLICATIONS)
    documents = list(parse_documents(written, file=found.file)) if written and not has_hole(written) else []
    return documents[0].value if len(documents) == 1 else None


def applications(found: Object) -> Iterator[Any]:
    """The applications of a RayService, as far as its text can be read."""
    for _, application in items(configuration(found), "applications"):
        yield application
