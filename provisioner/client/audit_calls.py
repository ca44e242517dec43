"""Requests about the audit log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from provisioner.client.call import Call, Flow, NextLine, Stream, Tell, every, get, present
from provisioner.domain.errors import InvariantError
from provisioner.wire.audit import AuditEventView
from provisioner.wire.posture import PostureView

EXPORT_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events. `since` and `until` have a time zone; an event at `until` is not among them."""

    tenant: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    actor: str | None = None
    action: str | None = None
    subject: str | None = None


ALL = Wanted()


def list_events(wanted: Wanted = ALL) -> Flow[AuditEventView]:
    """Events, newest first."""
    return every(AuditEventView, "/audit", _query(wanted))


def export_events(wanted: Wanted = ALL) -> Flow[AuditEventView]:
    """Every event until now, oldest first, in one answer of any length. Raises RetryableError when it breaks off."""
    yield Stream(path="/audit/export", query=_query(wanted), silence_seconds=EXPORT_SILENCE_SECONDS)
    while (line := (yield NextLine())) is not None:
        try:
            event = AuditEventView.model_validate_json(line)
        except ValueError as error:
            raise InvariantError(
                "reading the exported audit log: a line that is no event",
                hint="use a client of the server's version",
            ) from error
        yield Tell(event)


def get_posture() -> Call[PostureView]:
    """How open the installation is, as facts to review."""
    return get(PostureView, "/posture")


def _query(wanted: Wanted) -> Mapping[str, str]:
    moments = {name: moment.isoformat() for name in ("since", "until") if (moment := getattr(wanted, name))}
    return present(asdict(wanted) | moments)
