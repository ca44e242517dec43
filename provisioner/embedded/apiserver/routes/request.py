"""What a request asks for: the path and the parameters of the Kubernetes API, parsed once.

`dispatch` parses; the other routes read. Every number is bounded here, and text that is no number is a 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from provisioner.embedded.apiserver import status
from provisioner.embedded.apiserver.collection import Write
from provisioner.embedded.apiserver.kinds import Kind
from provisioner.embedded.apiserver.selectors import Selection, parse_fields, parse_labels

MAX_WATCH_SECONDS: Final = 3_600
_VALIDATIONS: Final = ("Strict", "Warn", "Ignore")
_MAX_MANAGER_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """The part of a path behind group and version. `name` and `subresource` may be empty."""

    group: str
    version: str
    plural: str
    namespace: str | None
    name: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """The query of one request."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """A parameter, empty when it is not sent."""
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean parameter; only the words that Go reads as true are."""
        return self.text(name) in ("1", "t", "T", "true", "TRUE", "True")

    def number(self, name: str, *, maximum: int) -> int | None:
        """A non-negative number, cut to `maximum`; None when it is not sent. Raises 400 on other text."""
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise status.bad_request(f"invalid value for `{name}`: {text[:64]!r}: must be a non-negative number")
        return min(int(text), maximum)

    def revision(self) -> int | None:
        """The `resourceVersion` parameter; None when it is not sent."""
        return self.number("resourceVersion", maximum=2**63 - 1)

    def selection(self, kind: Kind) -> Selection:
        """The selectors. Raises 400 on text outside their grammar."""
        return Selection(
            parse_labels(self.text("labelSelector")), parse_fields(self.text("fieldSelector"), kind.field_paths)
        )

    def write(self, *, user_agent: str, subresource: str = "", applies: bool = False) -> Write:
        """How a write is to be made. Raises 422 on options that no server accepts."""
        manager = self.text("fieldManager")
        if applies and not manager:
            raise invalid_option("PatchOptions", "fieldManager", message="Required value: is required for apply patch")
        if len(manager) > _MAX_MANAGER_LENGTH or not manager.isprintable():
            raise invalid_option(
                "PatchOptions", "fieldManager", message="Invalid value: may have 128 printable characters"
            )
        if self.text("force") and not applies and self.text("force") != "false":
            raise invalid_option("PatchOptions", "force", message="Forbidden: may not be specified for non-apply patch")
        validation = self.text("fieldValidation") or "Warn"
        if validation not in _VALIDATIONS:
            raise invalid_option("PatchOptions", "fieldValidation", message=f"Unsupported value: {validation[:64]!r}")
        return Write(
            manager=manager or user_agent.partition("/")[0][:_MAX_MANAGER_LENGTH] or "unknown",
            subresource=subresource,
            dry_run=self.dry_run(),
            force=self.flag("force"),
            validation=validation,
        )

    def dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        wanted = self.text("dryRun")
        if wanted not in ("", "All"):
            raise invalid_option(
                "PatchOptions", "dryRun", message=f"Unsupported value: {wanted[:64]!r}: supported values: All"
            )
        return wanted == "All"


def parse_resource_path(segments: list[str], *, group: str, version: str) -> ResourcePath:
    """`[namespaces/<ns>/]<plural>[/<name>[/<subresource>]]`. Raises 404 on anything else."""
    namespace = None
    if segments[0] == "namespaces" and len(segments) > 2 and segments[2] not in ("status", "finalize"):
        namespace, segments = segments[1], segments[2:]
    if not 1 <= len(segments) <= 3 or not all(segments):
        raise status.no_such_path()
    plural, name, subresource = (*segments, "", "")[:3]
    return ResourcePath(group, version, plural, namespace, name, subresource)


def invalid_option(kind: str, field: str, *, message: str, reason: str = "FieldValueInvalid") -> status.StatusError:
    """422 about a parameter; `kind` is the options object that it belongs to."""
    target = status.Target("meta.k8s.io", kind.lower(), kind)
    return status.invalid(target, "", causes=[status.Cause(reason, message, field)])
