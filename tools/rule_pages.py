"""The pages of `docs/rules`: an index by area and field, and a page for every rule from its docstring and samples.

`tools/reference.py` writes or compares them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from functools import cache
from pathlib import Path
from types import ModuleType

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog
from provisioner.domain.finding import Finding, Severity
from provisioner.lint.engine import lint_paths
from provisioner.lint.kubernetes import chosen_version
from provisioner.lint.rule import Rule
from provisioner.lint.rules import areas, every_rule, modules, rules_of

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "lint" / "rules"
LONGEST = 90
"""Lines of a sample that a page can be made from."""
AROUND, HEAD = 12, 5
"""Lines that an excerpt shows before what was found, and of the beginning of its object."""
UNTOLD = {"file-unreadable", "file-link-loop", "file-too-large", "rule-failed"}
"""Rules that no sample in a repository can break."""


Fields = Sequence[tuple[str, Sequence[Rule]]]
"""What a module is about, in its own words, and its rules."""


def rule_pages() -> dict[str, str]:
    """Every page by its file name."""
    index = {_title(area): [_field(module) for module in modules(area) if rules_of(module)] for area in areas()}
    return {"README.md": _index(index)} | {f"{rule.id}.md": _page(rule) for rule in every_rule()}


def _field(module: ModuleType) -> tuple[str, Sequence[Rule]]:
    return _title(module), rules_of(module)


def _title(module: ModuleType) -> str:
    return (module.__doc__ or "").partition("\n")[0].rstrip(".")


def _rules(fields: Fields) -> Iterator[Rule]:
    return (rule for _, rules in fields for rule in rules)


def _index(index: Mapping[str, Fields]) -> str:
    lines = [
        "# Rules",
        "",
        f"`tenantry lint` knows {len(every_rule())} rules. What is an error does not work, is refused, or loses data",
        "or isolation; a warning bites under usual conditions; information is worth knowing. `tenantry lint --explain`",
        "prints what a rule is about.",
        "",
        "| area | rules | error | warning | info |",
        "|---|---|---|---|---|",
    ]
    for area, fields in index.items():
        counts = Counter(rule.severity for rule in _rules(fields))
        link = f"[{area}](#{area.lower().replace(' ', '-').replace(',', '')})"
        cells = [link, str(counts.total()), *(str(counts[severity] or "") for severity in Severity)]
        lines.append(f"| {' | '.join(cells)} |")
    for area, fields in index.items():
        lines += ["", f"## {area}"]
        for title, rules in fields:
            lines += ["", f"### {title}", "", "| rule | severity | what is wrong |", "|---|---|---|"]
            lines += [f"| [`{rule.id}`]({rule.id}.md) | {rule.severity} | {_cell(rule.summary)} |" for rule in rules]
    return "\n".join([*lines, ""])


def _page(rule: Rule) -> str:
    lines = [f"# {rule.id}", "", f"**{rule.severity}**: {rule.summary}", "", rule.explanation, ""]
    if rule.id not in UNTOLD:
        findings = _findings(rule.id)
        lines += [*_samples(rule.id, findings), *_silencing(rule.id, findings)]
    return "\n".join(lines)


def _samples(rule: str, findings: Sequence[Finding]) -> Iterator[str]:
    """The first bad sample with what the rule says about it, and what is right."""
    bad, good = _files(rule, "bad"), _files(rule, "good")
    name = next((finding.file for finding in findings if finding.file in bad), next(iter(bad), None))
    if name is not None:
        line = next((finding.line for finding in findings if finding.file == name and finding.line), 1)
        yield from ("## Found in", "", f"`{name}`", "", "```yaml", _excerpt(bad[name], line), "```", "")
        yield from _beside(bad, name)
    yield from ("```text", *map(_told, findings), "```", "")
    better = next((other for other in (name, *good) if other in good and good[other] != bad.get(other)), None)
    if better is not None:
        yield from ("## Right", "", f"`{better}`", "", *_difference(bad.get(better), good[better]), "")
        yield from _beside(good, better)


def _beside(files: Mapping[str, str], name: str) -> Iterator[str]:
    """The files of a sample that are not shown."""
    others = ", ".join(f"`{other}`" for other in files if other != name)
    if others:
        yield from (f"Together with {others}.", "")


def _excerpt(text: str, line: int) -> str:
    """A sample, or of a long one the object and the lines around what was found."""
    lines = text.split("\n")
    if len(lines) <= AROUND * 2 or (line <= AROUND and len(lines) <= AROUND * 3):
        return text
    start = max((at for at in range(line) if lines[at].startswith("---")), default=-1) + 1
    head = lines[start : start + HEAD]
    first, last = max(start + HEAD, line - AROUND), min(len(lines), line + AROUND // 2)
    gap = ["# …"] if first > start + HEAD else []
    return "\n".join([*head, *gap, *lines[first:last], *(["# …"] if last < len(lines) else [])])


def _files(rule: str, kind: str) -> dict[str, str]:
    """The files of a rule's first sample that are text and short enough to be read, by name."""
    found = {}
    folder = min((SAMPLES / rule).glob(f"{kind}*"))
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = file.read_text(errors="replace").rstrip()
        if "\ufffd" not in text and text.count("\n") < LONGEST and all(len(line) < 200 for line in text.split("\n")):
            found[file.relative_to(folder).as_posix()] = text
    return found


def _findings(rule: str) -> list[Finding]:
    """What the rule says about its first bad sample, paths as seen from there."""
    folder = min((SAMPLES / rule).glob("bad*"))
    baseline, version = SAMPLES / rule / "baseline", SAMPLES / rule / "kubernetes-version"
    findings = lint_paths(
        [folder],
        catalog=_catalog(),
        kubernetes=chosen_version(version.read_text().strip() if version.is_file() else None),
        baseline=[baseline] if baseline.is_dir() else [],
    )
    tops = re.compile(f"{folder}/|{baseline}/")
    return [
        replace(found, file=tops.sub("", found.file or ""), message=tops.sub("", found.message))
        for found in findings
        if found.rule == rule
    ]


@cache
def _catalog() -> Catalog:
    return load_catalog()


def _told(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}: {finding.message}\n  fix: {finding.hint}"


def _difference(bad: str | None, good: str) -> Iterator[str]:
    """The right text: what it has differently where that is less to read than all of it."""
    changes = list(unified_diff((bad or "").split("\n"), good.split("\n"), n=2, lineterm=""))[2:]
    if bad and len(changes) <= good.count("\n"):
        yield from ("```diff", *(line for line in changes if not line.startswith("@@")), "```")
    else:
        yield from ("```yaml", good, "```")


def _silencing(rule: str, findings: Sequence[Finding]) -> Iterator[str]:
    """How to say that it is meant; nothing for a file that is no object's, where nobody can."""
    if any(finding.object for finding in findings):
        where, how = "on the object", f'metadata:\n  annotations:\n    lint.tenantry.io/ignore: "{rule}: <reason>"'
    elif any((finding.file or "").endswith("vcluster.yaml") for finding in findings):
        where, how = "at the top of the file", f"# lint.tenantry.io/ignore: {rule}: <reason>"
    else:
        return
    yield from ("## Silence it", "", f"Where it is meant that way, say why {where}:", "", "```yaml", how, "```", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
