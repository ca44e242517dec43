"""Makes the two sides of a change: what each is rendered to, unit by unit, and only where the change can reach it.

Units are what every tier publishes, its reference cases and the endpoints that run. Two units are equal without being
rendered when the same compiled templates are filled with the same values. Endpoints that ask for the same but for their
names differ in the same way: they share one Rendition. Wiring gives two Sources and has the sides compared. Pure but
for the packs' files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson

from provisioner.admission import admit_endpoint, forecast_endpoint
from provisioner.catalog.catalog import Catalog
from provisioner.catalog.site import Site
from provisioner.domain.errors import RejectedError, TenantryError
from provisioner.domain.finding import Finding, Severity, unknown_name_hint
from provisioner.domain.plan import EndpointPlan
from provisioner.preview.cases import Offer, Request, reference_cases
from provisioner.preview.compilations import Deferred, every_file
from provisioner.preview.phrases import count
from provisioner.preview.sides import Fleet, Rendition, RunningEndpoint, Side, Subject, Unit, says_the_same
from provisioner.rendering.pack import Pack
from provisioner.rendering.publishing import Filled, Object
from provisioner.rendering.versions import frozen_files

PLATFORM = "platform"
"""The unit of what an installation needs once, beside all tiers; also what stands in the place of its tier."""

_NAMES = ("name", "tenant", "team")
_OF_PLATFORM = ("templates/_platform", "templates/_parts", "policies")
"""What the platform's templates may read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """What one side is rendered from.

    `digest` stands for catalog, site and policies. `broken` are the tiers whose files cannot be read, and other parts
    of a catalog by a name for them, and why; `failure` says why nothing at all can be rendered.
    """

    label: str
    catalog: Catalog
    site: Site
    pack: Pack
    digest: str
    broken: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    failure: tuple[Finding, ...] = ()


Judge = Callable[[Source, EndpointPlan | None, Sequence[Object]], tuple[Finding, ...]]
"""What linter and policies say to the objects of a unit; the plan is None for what is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A unit before its objects are made: what they come from, or why there are none. `frozen` are files that are
    published as they are beside the parts."""

    parts: tuple[Filled, ...] = ()
    frozen: tuple[bytes, ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: EndpointPlan | None = None
    failure: tuple[Finding, ...] = ()
    make: Callable[[_Filled, EndpointPlan | None], Iterable[Object]] = lambda *_: ()
    """From what was filled already and the plan, with the revision that its pods really come as."""

    @property
    def is_refused(self) -> bool:
        """Whether nobody may have it as it is."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def looks_like(self, other: _Draft) -> bool:
        """Whether a person would see no difference. Raises RejectedError where templates do not compile."""
        limits, others = (draft.plan.limits if draft.plan else {} for draft in (self, other))
        return (self.frozen, self.parts, self.findings, limits) == (other.frozen, other.parts, other.findings, others)


Drafting = Callable[[Source], _Draft | None]


def make_sides(
    base: Source,
    head: Source,
    *,
    fleet: Fleet,
    tiers: Collection[str] | None,
    judge: Judge,
    doing: Callable[[str], None],
) -> tuple[Side, Side]:
    """Both sides with the units that differ, or that either cannot render. `tiers` are those to look at, None for all
    and for what stands beside them; `doing` is told what is looked at.

    Raises RejectedError where nothing of either side can be read, and for a tier that neither has.
    """
    if base.failure and head.failure:
        raise RejectedError("previewing: nothing can be read", reason="NothingToPreview", findings=head.failure)
    making = _Making((base, head), judge)
    every = sorted({name for source in (base, head) for name in (*source.catalog.tiers, *source.broken)})
    if unknown := next((name for name in tiers or () if name not in every), None):
        raise RejectedError(f"previewing: unknown tier: `{unknown}`", hint=unknown_name_hint(unknown, every))
    for tier in every:
        if tiers is None or tier in tiers:
            doing(f"rendering tier {tier}")
            making.take_tier(tier)
            making.take_cases(tier)
    if tiers is None:
        doing("rendering the platform")
        making.take_platform()
    asked = [one for one in fleet.endpoints if tiers is None or one.request.get("tier") in tiers]
    if asked:
        doing(f"rendering {count(len(asked), 'endpoint')}")
    for endpoint in asked:
        making.take_endpoint(endpoint)
    old, new = (
        Side(label=source.label, site=source.site.name, units=units, plans=making.plans, uncovered=making.uncovered)
        for source, units in zip((base, head), making.made, strict=True)
    )
    return old, new


class _Making:
    """The two sides while they are made."""

    def __init__(self, sources: tuple[Source, Source], judge: Judge) -> None:
        self.uncovered: dict[str, str] = {}
        self.plans: dict[Unit, EndpointPlan] = {}
        self.made: tuple[dict[Unit, Rendition], dict[Unit, Rendition]] = ({}, {})
        self._sources = sources
        self._judge = judge
        self._judged: set[frozenset[str]] = set()
        self._alike: dict[bytes, _Made] = {}
        base, head = sources
        self._tells_names = base.site != head.site  # then even how long a name is may make a difference

    def take_tier(self, tier: str) -> None:
        """What is published with a tier."""
        self._take(Unit(subject=Subject.TIER, name=tier, tier=tier), lambda source: _tier(source, tier))

    def take_platform(self) -> None:
        """What an installation needs once."""
        self._take(Unit(subject=Subject.TIER, name=PLATFORM, tier=PLATFORM), _platform)

    def take_cases(self, tier: str) -> None:
        """The reference cases of a tier that both sides can read."""
        if any(source.failure or tier in source.broken for source in self._sources):
            return
        offers = [Offer(source.catalog, source.site) for source in self._sources]
        for name, case in reference_cases(tier, offers).items():
            if not case.requests:
                if tier in self._sources[1].catalog.tiers:
                    self.uncovered[f"{tier}/{name}"] = case.why
                continue
            asked = dict(zip(self._sources, case.requests, strict=True))
            self._take(Unit(subject=Subject.CASE, name=f"{tier}/{name}", tier=tier), _case_of(asked))

    def take_endpoint(self, endpoint: RunningEndpoint) -> None:
        """An endpoint that runs. Of those that ask for the same only the first is planned and rendered."""
        asked = endpoint.request
        unit = Unit(subject=Subject.ENDPOINT, name=endpoint.id, tier=str(asked.get("tier", "")), tenant=endpoint.tenant)
        same = asked if self._tells_names else {name: asked[name] for name in asked if name not in _NAMES}
        key = orjson.dumps(same, option=orjson.OPT_SORT_KEYS)
        if key not in self._alike:
            self._alike[key] = self._compared(lambda source: _endpoint(source, endpoint))
        made = self._alike[key]
        self._keep(unit, made)
        if made.plan is not None:
            self.plans[unit] = made.plan

    def _take(self, unit: Unit, draft: Drafting) -> None:
        self._keep(unit, self._compared(draft))

    def _keep(self, unit: Unit, made: _Made) -> None:
        for units, rendition in zip(self.made, (made.base, made.head), strict=True):
            if rendition is not None:
                units[unit] = rendition

    def _compared(self, draft: Drafting) -> _Made:
        """What both sides make of a unit."""
        drafts = [draft(source) for source in self._sources]
        old, new = drafts
        if old is not None and new is not None and not old.failure and not new.failure:
            with suppress(TenantryError):  # a template that does not compile: its own side tells
                if old.looks_like(new):
                    return _Made(plan=new.plan)
        is_refused = all(draft is not None and draft.is_refused for draft in drafts)  # more errors would tell nothing
        is_judged = not is_refused and self._is_new_shape(drafts)
        filled = _Filled()
        base, head = (
            self._rendition(source, draft, filled, is_judged=is_judged)
            for source, draft in zip(self._sources, drafts, strict=True)
        )
        is_same = base is not None and base == head and not base.failure and says_the_same(base.objects, head.objects)
        return _Made(plan=base.plan if base else None) if is_same else _Made(base, head)

    def _rendition(self, source: Source, draft: _Draft | None, filled: _Filled, *, is_judged: bool) -> Rendition | None:
        if draft is None:
            return None
        if draft.failure:
            return Rendition(findings=draft.findings, failure=draft.failure)
        plan = draft.plan
        try:
            plan = source.pack.revised(plan) if plan is not None else None
            objects = tuple(draft.make(filled, plan))
            told = self._judge(source, plan, objects) if is_judged else ()
        except TenantryError as error:
            return Rendition(findings=draft.findings, plan=plan, failure=_findings_of(error))
        return Rendition(objects=objects, findings=(*draft.findings, *told), plan=plan)

    def _is_new_shape(self, drafts: Sequence[_Draft | None]) -> bool:
        """Whether nothing made of the same templates was judged before: linter and policies would say the same."""
        parts = [part.compiled for draft in drafts if draft is not None for part in draft.parts]
        shape = frozenset(compiled.inputs for compiled in parts if isinstance(compiled, Deferred))
        is_new = shape not in self._judged
        self._judged.add(shape)
        return is_new


class _Made(NamedTuple):
    """What each side makes of a unit, where they do not make the same; where they do, its plan."""

    base: Rendition | None = None
    head: Rendition | None = None
    plan: EndpointPlan | None = None


class _Filled:
    """The objects of parts that were filled, so that those which both sides have are the same values on both."""

    def __init__(self) -> None:
        self._made: dict[str, list[tuple[Filled, list[Object]]]] = {}

    def objects(self, part: Filled) -> list[Object]:
        """The objects of a part. Raises RejectedError where its templates do not compile."""
        if not isinstance(part.compiled, Deferred):
            return part.objects
        made = self._made.setdefault(part.compiled.inputs, [])
        found = next((objects for other, objects in made if other.values == part.values), None)
        if found is None:
            found = part.objects
            made.append((part, found))
        return found


def _tier(source: Source, tier: str) -> _Draft | None:
    if broken := _broken(source, tier):
        return broken
    if tier not in source.catalog.tiers:
        return None
    pack = source.pack

    def draft() -> _Draft:
        frozen = tuple(path.read_bytes() for path in frozen_files(pack.files, tier))
        return _Draft(parts=(pack.published(tier),), frozen=frozen, make=lambda *_: pack.tier_objects(tier))

    return _drafted(draft)


def _platform(source: Source) -> _Draft | None:
    if broken := _broken(source, PLATFORM):
        return broken
    if source.site.installation is None:
        return None
    files = source.pack.files
    paths = (files.find(name) for name in every_file(files, _OF_PLATFORM))
    frozen = (source.site.model_dump_json().encode(), *(path.read_bytes() for path in paths if path))
    return _Draft(frozen=frozen, make=lambda *_: source.pack.platform_objects())


def _case_of(asked: Mapping[Source, Request | None]) -> Drafting:
    return lambda source: _case(source, asked[source])


def _case(source: Source, request: Request | None) -> _Draft | None:
    if request is None:
        return None
    forecast = forecast_endpoint(request, catalog=source.catalog, site=source.site)
    plan = forecast.plan
    if plan is None or not forecast.renders:
        return _Draft(failure=tuple(found for found in forecast.findings if found.severity is Severity.ERROR))
    return _drafted(lambda: replace(_planned(source, plan), findings=forecast.findings))


def _endpoint(source: Source, endpoint: RunningEndpoint) -> _Draft:
    if broken := _broken(source, str(endpoint.request.get("tier"))):
        return broken

    def draft() -> _Draft:
        catalog, site = source.catalog, source.site
        _, plan = admit_endpoint(endpoint.request, catalog=catalog, site=site, endpoint_id=endpoint.id)
        return _planned(source, plan)

    return _drafted(draft)


def _planned(source: Source, plan: EndpointPlan) -> _Draft:
    """Compared with admission's revision: where nothing differs, nothing is rendered to tell the true one."""

    def make(filled: _Filled, revised: EndpointPlan | None) -> Iterator[Object]:
        for part in source.pack.parts(revised or plan):
            yield from filled.objects(part)

    return _Draft(parts=source.pack.parts(plan), plan=plan, make=make)


def _broken(source: Source, tier: str) -> _Draft | None:
    findings = source.failure or source.broken.get(tier, ())
    return _Draft(failure=findings) if findings else None


def _drafted(draft: Callable[[], _Draft]) -> _Draft:
    """The draft; where it cannot be made, why."""
    try:
        return draft()
    except TenantryError as error:
        return _Draft(failure=_findings_of(error))


def _findings_of(error: TenantryError) -> tuple[Finding, ...]:
    findings = error.findings if isinstance(error, RejectedError) else ()
    return findings or (Finding(reason=error.reason, message=error.message, hint=error.hint),)
