"""The report of a preview: what differs, what that does to endpoints that run, which findings come and go.

Values only, made by `compare` and read by the three renderers and by `verdict`. Everything in it is text, numbers and
tuples in a fixed order, so that the same two sides give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioner.domain.finding import Finding
from provisioner.preview.effect import Effect, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field that differs: values as a reader sees them, None for a field that is not there; secrets are masked."""

    path: str
    before: str | None
    after: str | None
    effect: Effect
    reach: Reach
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """In which units a change was found: reference cases by name, endpoints and their tenants by number."""

    published: bool = False
    cases: tuple[str, ...] = ()
    endpoints: int = 0
    tenants: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One object that differs, once for all units in which it differs alike.

    `sign` is `+`, `-`, `±`, or `→` for an object that was renamed; `name` has placeholders for what differs between
    units (`{endpoint}`). `added` and `removed` count fields, a changed one in both.
    """

    sign: str
    kind: str
    name: str
    renamed_from: str = ""
    added: int
    removed: int
    fields: tuple[FieldChange, ...]
    where: Where = field(default_factory=Where)

    @property
    def worst(self) -> FieldChange:
        """The field with the worst effect."""
        return max(self.fields, key=lambda change: change.effect)

    @property
    def is_shown(self) -> bool:
        """Whether there is something to read: not where the manifests read alike, and only the revision is another."""
        return any(change.before is not None or change.after is not None for change in self.fields)

    @property
    def effect(self) -> Effect:
        """What the change does once it has arrived."""
        return self.worst.effect

    def __str__(self) -> str:
        was = f" (was {self.renamed_from})" if self.renamed_from else ""
        counts = f" (+{self.added}|-{self.removed})" if self.added or self.removed else ""
        return f"{self.sign} {self.kind}/{self.name}{was}{counts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How the pods of an endpoint come to restart: how many, seconds until each serves, and seconds without any.

    `way` is `revision` (beside the old ones), `replace` (no room for both) or `in place` (one after the other);
    `load_seconds` is None where nobody planned the endpoint. Endpoints of one `pool` share their pods.
    """

    way: str
    pods: int
    load_seconds: int | None
    gap_seconds: int
    node_type: str
    extra_gpus: int
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What the change does to one endpoint, or to one reference case where nothing is known to run.

    `at_once` is what already happens when the tier is published, `later` what moving the endpoint to the new version of
    its template would do on top.
    """

    unit: str
    tier: str
    tenant: str
    effect: Effect
    reach: Reach
    reason: str
    at_once: Effect = Effect.NOTHING
    later: Effect = Effect.NOTHING
    rollout: Rollout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactGroup:
    """Endpoints of a tier to which the same happens, counted by tenant, with what their roll-outs sum up to."""

    tier: str
    effect: Effect
    reach: Reach
    reason: str
    at_once: Effect
    later: Effect
    endpoints: int
    tenants: Mapping[str, int]
    pods: int
    load_seconds: tuple[int, int] | None
    """Of the quickest and of the slowest replica."""
    gap_seconds: int
    ways: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNeed:
    """GPUs that new revisions take beside the old ones, on nodes of one type: for all endpoints at once, for the
    greatest of them alone, and what is free (None where nobody knows)."""

    node_type: str
    endpoints: int
    all_gpus: int
    largest_gpus: int
    free_gpus: int | None
    replaced: int
    gap_seconds: int

    @property
    def fits(self) -> str:
        """`at once`, `in turns`, `not beside` or `unknown`."""
        if self.free_gpus is None:
            return "unknown"
        if self.all_gpus <= self.free_gpus:
            return "at once"
        return "in turns" if self.largest_gpus <= self.free_gpus else "not beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Units of a tier that one side could not render, for the same reason: how many, and one of them by name.

    `is_new` tells that the base side could render them.
    """

    tier: str
    units: int
    example: str
    side: str
    is_new: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChange:
    """A finding that is new, fixed or unchanged, and in how many units it stands."""

    finding: Finding
    units: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChanges:
    """Findings by what became of them, the worst first."""

    new: tuple[FoundChange, ...] = ()
    fixed: tuple[FoundChange, ...] = ()
    unchanged: tuple[FoundChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierReport:
    """Everything about one tier. `state` is `added`, `removed`, `changed` or `failed`; `stranded` names the endpoints
    that live on a tier which is removed."""

    name: str
    state: str
    effect: Effect
    changes: tuple[ObjectChange, ...]
    groups: tuple[ImpactGroup, ...]
    failures: tuple[Failure, ...]
    stranded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report, tiers in order of their names. `tiers` leaves out those that nothing changed in."""

    base: str
    head: str
    site: str
    """Its name on the head side."""
    uncovered: Mapping[str, str]
    """Reference cases that nobody can plan at this site, so that a change of theirs goes unseen, and why."""
    units: int
    failed: int
    endpoints: int
    unknown: int
    """Endpoints about which nothing is known, since what they are made of could not be rendered."""
    effect: Effect
    tiers: tuple[TierReport, ...]
    impacts: tuple[Impact, ...]
    capacity: tuple[CapacityNeed, ...]
    findings: FindingChanges
    removals: tuple[FoundChange, ...]
    """Kinds and API versions that the target Kubernetes does not serve, or not for long."""
