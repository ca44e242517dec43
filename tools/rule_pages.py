"""The pages of `docs/rules`: an index by area and field, and a page for every rule from its docstring and samples.

`tools/reference.py` writes or compares them.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from functools import cache
from pathlib import Path

from provisioner.catalog.catalog import Catalog
from provisioner.catalog.loader import load_catalog
from provisioner.domain.finding import Finding, Severity
from provisioner.lint import rules as package
from provisioner.lint.engine import lint_paths
from provisioner.lint.kubernetes import chosen_version
from provisioner.lint.rule import Rule
from provisioner.lint.rules import every_rule

AREAS = {
    "Files, YAML and schemas": "files yaml scalars schema api versions_custom objects kustomizations template packs "
    "baseline",
    "Workloads": "workloads workloads_refused references containers images selectors selectors_monitors disruption",
    "Scheduling and quotas": "scheduling scheduling_terms quotas quotas_kueue",
    "Security": "containers_security containers_secrets policies policies_access policies_pod_security",
    "Network policies and names": "network network_pods network_groups dns",
    "Routing": "gateways listeners hostnames routes routes_parents routes_backends routes_timeouts grants ingress "
    "ingress_nginx",
    "Model servers": "engine_command engine_flags engine_address engine_environment engine_memory parallelism "
    "shared_memory model_cache startup probes rollouts multinode kserve metrics drivers",
    "Autoscaling": "scalers scalers_triggers scale_to_zero",
    "Argo CD": "applications applications_contents helm_source argocd argocd_projects argocd_annotations syncing "
    "syncing_differences syncing_waves applicationsets applicationsets_generators",
    "Tenant clusters": "tenant_values tenant_values_sync private_nodes control_plane leader_election integrations",
    "Nodes of tenant clusters": "node_pools node_types node_types_machines",
    "The Platform": "projects projects_references versions parameters parameters_given parameters_holes stacks "
    "integrations_templates access",
    "The linter itself": "silencing",
}
"""The modules of rules by area, as the index shows them."""
SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "lint" / "rules"
LONGEST = 60
"""Lines of a sample that a page shows."""
UNTOLD = {"file-unreadable", "file-link-loop", "file-too-large", "rule-failed"}
"""Rules that no sample in a repository can break."""


Fields = Sequence[tuple[str, Sequence[Rule]]]
"""What a module is about, in its own words, and its rules."""


def rule_pages() -> dict[str, str]:
    """Every page by its file name."""
    areas = {area: [_field(name) for name in modules.split()] for area, modules in AREAS.items()}
    homeless = {rule.id for rule in every_rule()} - {rule.id for fields in areas.values() for rule in _rules(fields)}
    if homeless:
        raise SystemExit(f"writing index of rules: AREAS lacks the modules of {', '.join(sorted(homeless))}")
    return {"README.md": _index(areas)} | {f"{rule.id}.md": _page(rule) for rule in every_rule()}


def _field(name: str) -> tuple[str, Sequence[Rule]]:
    module = importlib.import_module(f"{package.__name__}.{name}")
    rules = [
        value
        for value in vars(module).values()
        if isinstance(value, Rule) and value.check.__module__ == module.__name__
    ]
    return (module.__doc__ or name).partition("\n")[0].rstrip("."), sorted(rules, key=lambda rule: rule.id)


def _rules(fields: Fields) -> Iterator[Rule]:
    return (rule for _, rules in fields for rule in rules)


def _index(areas: Mapping[str, Fields]) -> str:
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
    for area, fields in areas.items():
        counts = Counter(rule.severity for rule in _rules(fields))
        link = f"[{area}](#{area.lower().replace(' ', '-').replace(',', '')})"
        cells = [link, str(counts.total()), *(str(counts[severity] or "") for severity in Severity)]
        lines.append(f"| {' | '.join(cells)} |")
    for area, fields in areas.items():
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
        yield from ("## Found in", "", f"`{name}`", "", "```yaml", bad[name], "```", "")
    yield from ("```text", *map(_told, findings), "```", "")
    better = next((other for other in (name, *good) if other in good and good[other] != bad.get(other)), None)
    if better is not None:
        yield from ("## Right", "", f"`{better}`", "", *_difference(bad.get(better), good[better]), "")


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
