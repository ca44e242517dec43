"""A report as a comment on a pull request: the worst first, details folded by tier, no longer than a comment may be.

The hidden marker on the first line is how a later run finds the comment to update. What does not fit is counted, never
dropped in silence; effects, failures and new errors always fit. Pure.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from provisioner.domain.finding import Finding, Severity
from provisioner.preview import phrases
from provisioner.preview.report import Failure, FieldChange, FoundChange, ObjectChange, Report, TierReport

MARKER = "<!-- tenantry-preview -->"
MAX_CHARACTERS = 65_000
"""GitHub takes 65,536 characters in a comment; what a pipeline adds shall fit too."""
_RESERVE = 400
"""Kept for the line that says what was left out, and for closing what is open."""
_FIELDS = 30
_LINES, _LINE = 24, 300
_PROSE = 300
_EFFECTS, _FAILURES, _ERRORS, _REST = 50, 12, 30, 15
"""Rows of each list; together they always fit, and what is left out is counted."""


def report_markdown(report: Report, *, exit_code: int) -> str:
    """The comment."""
    head = _bounded(_head(report, exit_code))
    return head + _details(report.tiers, MAX_CHARACTERS - len(head))


def _bounded(lines: Iterator[str]) -> str:
    """The lines as far as they fit, which is all of them unless most of what they quote has to be escaped."""
    text = ""
    for line in lines:
        if len(text) + len(line) > MAX_CHARACTERS - _RESERVE:
            return text + f"\n{phrases.count(1 + sum(1 for _ in lines), 'more line')} did not fit.\n\n"
        text += line + "\n"
    return text


def _head(report: Report, exit_code: int) -> Iterator[str]:
    yield MARKER
    base, head = (label.replace("`", "'") for label in (report.base, report.head))
    yield f"## Preview: `{base}` → `{head}`"
    yield ""
    yield f"**{phrases.headline(report).capitalize()}.** {phrases.basis(report)} Exit code {exit_code}."
    yield ""
    yield from _effects(report)
    yield from _stranded(report)
    yield from _failures([failure for tier in report.tiers for failure in tier.failures])
    yield from _capacity(report)
    yield from _findings(report)
    yield from _uncovered(report)


def _uncovered(report: Report) -> Iterator[str]:
    if not report.uncovered:
        return
    yield f"<details><summary>{phrases.count(len(report.uncovered), 'reference case')} not covered</summary>"
    yield ""
    yield from (f"- {_prose(_cut(line, _PROSE))}" for line in islice(phrases.uncovered(report), _REST))
    yield ""
    yield "</details>"
    yield ""


def _effects(report: Report) -> Iterator[str]:
    groups = [group for tier in report.tiers for group in tier.groups]
    if not groups:
        return
    groups.sort(key=lambda group: (-group.effect, group.tier, -group.endpoints))
    who = "endpoints" if report.endpoints else "cases"
    yield from _table(
        ("effect", "tier", who, "tenants", "pods", "load time", "gap", "why"),
        [
            (
                f"**{phrases.outcome(group.effect, group.reach)}**",
                group.tier,
                f"{group.endpoints:,}",
                _prose(phrases.tenants(group)),
                f"{group.pods:,}" if group.pods else "",
                phrases.loads(group),
                phrases.gap(group),
                _prose(phrases.because(group)),
            )
            for group in groups[:_EFFECTS]
        ],
    )
    if len(groups) > _EFFECTS:
        left = sum(group.endpoints for group in groups[_EFFECTS:])
        yield f"{phrases.count(left, 'more endpoint')}, none of them hit worse than: {groups[_EFFECTS].effect.words}."
        yield ""


def _stranded(report: Report) -> Iterator[str]:
    for tier in report.tiers:
        if tier.stranded:
            names = ", ".join(f"`{name}`" for name in tier.stranded[:20])
            more = f" and {len(tier.stranded) - 20:,} more" if len(tier.stranded) > 20 else ""
            lives = phrases.count(len(tier.stranded), "endpoint")
            yield f"**Tier `{tier.name}` is removed while {lives} live on it:** {names}{more}"
            yield ""


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    if not failures:
        return
    yield "### Could not be rendered"
    yield ""
    for failure in failures[:_FAILURES]:
        many = f" and {phrases.count(failure.units - 1, 'other')}" if failure.units > 1 else ""
        known = "" if failure.is_new else ", as before" if failure.side == "head" else ", mended by this change"
        yield f"- **{failure.tier}** on the {failure.side} side{known}: `{failure.example}`{many}"
        yield from (f"  - {_said(finding)}" for finding in failure.findings[:3])
    if len(failures) > _FAILURES:
        yield f"- {phrases.count(len(failures) - _FAILURES, 'more failure')}"
    yield ""


def _capacity(report: Report) -> Iterator[str]:
    if not report.capacity:
        return
    yield "### GPUs for old and new revisions side by side"
    yield ""
    yield from _table(
        ("node type", "endpoints", "all at once", "the largest alone", "free", ""),
        [
            (
                f"`{need.node_type}`",
                f"{need.endpoints:,}",
                f"{need.all_gpus:,}",
                f"{need.largest_gpus:,}",
                "unknown" if need.free_gpus is None else f"{need.free_gpus:,}",
                phrases.room(need),
            )
            for need in report.capacity[:_ERRORS]
        ],
    )


def _findings(report: Report) -> Iterator[str]:
    found = report.findings
    if not (found.new or found.fixed or report.removals):
        if found.unchanged:
            yield f"{phrases.count(len(found.unchanged), 'finding')} on both sides."
            yield ""
        return
    yield f"### Findings: {len(found.new)} new, {len(found.fixed)} fixed, {len(found.unchanged)} unchanged"
    yield ""
    if found.new:
        yield from _listed(found.new, "new")
    if report.removals:
        version = "APIs that the target Kubernetes does not serve, or not for long"
        yield f"**{version}:**"
        yield ""
        yield from _listed(report.removals, "API")
    if found.fixed:
        yield "<details><summary>fixed</summary>"
        yield ""
        yield from _listed(found.fixed, "fixed")
        yield "</details>"
        yield ""


def _listed(found: Sequence[FoundChange], what: str) -> Iterator[str]:
    errors = [one for one in found if one.finding.severity is Severity.ERROR]
    shown = errors[:_ERRORS] + [one for one in found if one.finding.severity is not Severity.ERROR][:_REST]
    for one in shown:
        many = f" ({phrases.count(one.units, 'unit')})" if one.units > 1 else ""
        yield f"- **{one.finding.severity}** `{one.finding.rule}` {_said(one.finding)}{many}"
    if len(found) > len(shown):
        yield f"- {len(found) - len(shown):,} more {what} findings"
    yield ""


def _said(finding: Finding) -> str:
    hint = f"; {finding.hint}" if finding.hint else ""
    place = f"`{finding.file}:{finding.line}` " if finding.file and finding.line else ""
    return place + _prose(_cut(f"{finding.message}{hint}", _PROSE))


def _details(tiers: Sequence[TierReport], room: int) -> str:
    """Tiers folded away, the worst first, as far as they fit; what does not is counted."""
    text = ""
    left_out = 0
    told: dict[tuple[FieldChange, ...], str] = {}
    for tier in sorted(tiers, key=lambda tier: (-tier.effect, tier.name)):
        opening, closing = f"{_summary(tier)}\n", "</details>\n\n"
        body = ""
        skipped = 0
        changes = [change for change in tier.changes if change.is_shown]
        for change in changes:
            is_whole = tier.state in ("added", "removed")
            block = f"- `{change}`\n" if is_whole else "\n".join(_change(change, told.get(change.fields))) + "\n"
            if len(text) + len(opening) + len(body) + len(block) + len(closing) + _RESERVE > room:
                skipped += 1
            else:
                body += block
                told.setdefault(change.fields, tier.name)
        left_out += skipped
        if not changes:
            continue
        if len(text) + len(opening) + len(body) + len(closing) + _RESERVE <= room:
            more = f"{phrases.count(skipped, 'more object')} did not fit here.\n\n" if skipped else ""
            text += opening + body + more + closing
    if left_out:
        text += (
            f"{phrases.count(left_out, 'more object')} did not fit: `tenantry preview` on the command line shows all.\n"
        )
    return text


def _summary(tier: TierReport) -> str:
    state = f" ({tier.state})" if tier.state != "changed" else ""
    number = sum(change.is_shown for change in tier.changes)
    effect = "" if tier.state in ("added", "removed") else f"{tier.effect.words}, "
    told = f"{effect}{phrases.count(number, 'object')}"
    return f"<details><summary><b>{html.escape(tier.name)}</b>{state}: {told}</summary>\n"


def _change(change: ObjectChange, told_in: str | None) -> Iterator[str]:
    """One object; its fields only where no tier before has the same ones."""
    yield f"**`{change}`**"
    yield f"{phrases.change_outcome(change)} ({_prose(change.worst.reason)}) · {phrases.places(change.where)}"
    if told_in and any(field.path for field in change.fields):
        yield ""
        yield f"The same fields as in `{told_in}`."
        yield ""
        return
    shown = [field for field in change.fields if field.path or change.sign == "+"][:_FIELDS]
    lines = [line for field in shown for line in _field(field)]
    if lines:
        yield ""
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", "\n".join(lines))), 3)
        yield f"{fence}diff"
        yield from lines
        yield fence
    if len(change.fields) > len(shown) and shown:
        yield f"{phrases.count(len(change.fields) - len(shown), 'more field')}"
    yield ""


def _field(field: FieldChange) -> Iterator[str]:
    if field.before is None and field.after is None:
        return
    yield f"@@ {field.path or 'new'} @@"
    for mark, value in (("-", field.before), ("+", field.after)):
        if value is not None:
            lines = value.split("\n")
            yield from (f"{mark} {_cut(line, _LINE)}" for line in lines[:_LINES])
            if len(lines) > _LINES:
                yield f"{mark} … {phrases.count(len(lines) - _LINES, 'more line')}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table without the columns in which nothing stands."""
    kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
    yield "| " + " | ".join(titles[at] for at in kept) + " |"
    yield "|" + "---|" * len(kept)
    for row in rows:
        yield "| " + " | ".join(row[at].replace("|", "\\|") for at in kept) + " |"
    yield ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _prose(text: str) -> str:
    """Text that is not ours, so that nothing in it is taken for HTML, a mention or a line of its own."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a lone backtick would open code that nothing closes
        return _escaped("'".join(parts))
    return "`".join(part if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _escaped(text: str) -> str:
    plain = html.escape(text, quote=False).replace("@", "&#64;")
    return re.sub(r"([*_\[\]~])", r"\\\1", plain)
