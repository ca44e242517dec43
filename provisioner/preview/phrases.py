"""Words that every rendering of a report shares: counts, durations, places, who is hit. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.enumeration import first_few
from provisioner.preview.effect import Effect, Reach
from provisioner.preview.report import CapacityNeed, ImpactGroup, ObjectChange, Report, Where

_TENANTS_SHOWN, _CASES_SHOWN = 3, 10


def count(number: int, noun: str) -> str:
    """`1 endpoint`, `1,200 endpoints`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: int) -> str:
    """`45 s`, `2 min 23 s`, `1 h 5 min`: what a person plans with."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def headline(report: Report) -> str:
    """The worst that happens, in one sentence, and that it may be worse where something could not be previewed."""
    failed = f"{count(report.failed, 'unit')} could not be previewed" if report.failed else ""
    if stranded := sum(len(tier.stranded) for tier in report.tiers):
        told = f"{count(stranded, 'endpoint')} would be left without a tier"
    elif report.effect > Effect.NOTHING:
        told = f"{report.effect.words}: the worst that happens to a running endpoint"
    elif failed:
        return f"{failed}: what happens to {'it' if report.failed == 1 else 'them'} is not known"
    elif not report.tiers and not report.findings.new:
        return "nothing differs"
    else:
        return "nothing happens to running endpoints"
    return f"{told}; {failed}" if failed else told


def basis(report: Report) -> str:
    """What the effects are about: endpoints that run, or reference cases in their place."""
    site = f"Site `{report.site}`. " if report.site else ""
    if not report.endpoints:
        return f"{site}No endpoint is known to run: each reference case stands for one."
    stranded = sum(len(tier.stranded) for tier in report.tiers)
    hit = stranded + sum(impact.effect > Effect.NOTHING for impact in report.impacts)
    unknown = f", {report.unknown:,} unknown" if report.unknown else ""
    return f"{site}{count(report.endpoints, 'running endpoint')}: {hit:,} affected{unknown}."


def uncovered(report: Report) -> Iterator[str]:
    """What no reference case stands for at this site, those with the same reason together."""
    alike: dict[str, list[str]] = {}
    for case, why in report.uncovered.items():
        alike.setdefault(why, []).append(case)
    for why, cases in alike.items():
        yield f"not covered: {first_few(cases, _CASES_SHOWN)}: {why}"


def places(where: Where) -> str:
    """Where a change was found: `published · 2 cases · 200 endpoints of 37 tenants`."""
    found = ["published"] if where.published else []
    found += [count(len(where.cases), "case")] if where.cases else []
    if where.endpoints:
        found.append(f"{count(where.endpoints, 'endpoint')} of {count(where.tenants, 'tenant')}")
    return " · ".join(found)


def outcome(effect: Effect, reach: Reach) -> str:
    """What happens and when: `pods restart, with its next roll-out`."""
    if effect <= Effect.NEW_VERSION:  # which comes when somebody moves the endpoint to it, and not before
        return effect.words
    return f"{effect.words}, {'once moved to the new version' if reach is Reach.VERSION else reach.words}"


def change_outcome(change: ObjectChange) -> str:
    """What the worst field of an object does, and when."""
    return outcome(change.worst.effect, change.worst.reach)


def tenants(group: ImpactGroup) -> str:
    """Who is hit: `acme (12), globex (3) and 34 more`."""
    names = [f"{name} ({number})" if number > 1 else name for name, number in group.tenants.items() if name]
    return first_few(names, _TENANTS_SHOWN)


def loads(group: ImpactGroup) -> str:
    """How long a replica takes until it serves, empty where none restarts."""
    if not group.load_seconds or not group.pods:
        return ""
    least, most = group.load_seconds
    return duration(least) if least == most else f"{duration(least)} to {duration(most)}"


def gap(group: ImpactGroup) -> str:
    """For how long an endpoint may not answer at all; what machines and tenant clusters take to come is not known."""
    if not group.gap_seconds:
        return ""
    return f"{'at least' if group.effect >= Effect.NODES_REPLACED else 'up to'} {duration(group.gap_seconds)}"


def because(group: ImpactGroup) -> str:
    """Why, and what comes beside the worst."""
    notes = [group.reason]
    if group.at_once and group.reach is not Reach.PUBLISH:
        notes.append(f"{group.at_once.words} at once")
    if group.later > max(group.effect, Effect.NEW_VERSION):
        notes.append(f"moving to the new version: {group.later.words}")
    return "; ".join(notes)


def room(need: CapacityNeed) -> str:
    """Whether new revisions fit beside the old ones."""
    words = {
        "at once": "all of them fit at once",
        "in turns": "roll out in turns",
        "not beside": f"{count(need.replaced, 'endpoint')} replaced: no answer for up to {duration(need.gap_seconds)}",
        "unknown": "nobody knows what is free",
    }
    return words[need.fits]
