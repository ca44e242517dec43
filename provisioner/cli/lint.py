"""`tenantry lint`: what is wrong with a folder of manifests, before anything is applied."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provisioner.cli.catalog import CatalogOption
from provisioner.cli.output import Format, OutputOption, print_json, say, visible
from provisioner.domain.errors import NotFoundError, RejectedError
from provisioner.domain.finding import Finding, Severity, nearest_name

if TYPE_CHECKING:
    from provisioner.catalog.catalog import Catalog
    from provisioner.catalog.site import Site
    from provisioner.domain.plan import EndpointPlan
    from provisioner.lint.rule import Rule

PathsArgument = Annotated[list[Path] | None, typer.Argument(metavar="PATH...", help="Folders and files to look at.")]
VersionOption = Annotated[
    str | None,
    typer.Option("--kubernetes-version", help="API server's version, such as 1.34; the newest known by default."),
]
BaselineOption = Annotated[
    list[Path] | None, typer.Option("--baseline", help="What is published already: it may not change.")
]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Print what a rule is about.")]

_COLOURS = {Severity.ERROR: 31, Severity.WARNING: 33, Severity.INFO: 36}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lint")(lint)


def lint(
    paths: PathsArgument = None,
    kubernetes_version: VersionOption = None,
    baseline: BaselineOption = None,
    catalog: CatalogOption = None,
    explain: ExplainOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Find mistakes in manifests before anything is applied.

    Kubernetes objects, tenant cluster values, Argo CD Applications and ApplicationSets, Platform objects, template
    folders. All files below all paths are looked at together. Nothing is changed, no cluster is asked. Ends with 1 when
    a finding is an error.

    \b
    Examples:
      tenantry lint deploy/
      tenantry lint -o json --kubernetes-version 1.34 deploy/
      tenantry lint --explain yaml-duplicate-key
    """
    if explain is not None:
        _explain(explain)
        return
    if not paths:
        raise RejectedError("linting: no path given", hint="name a folder or a file: `tenantry lint deploy/`")
    findings = _lint(paths, kubernetes_version, baseline or (), catalog)
    if output is Format.JSON:
        from provisioner.wire.finding import FindingView

        print_json({"findings": [FindingView.of(finding).model_dump(mode="json") for finding in findings]})
    else:
        _print_findings(findings)
    say(_count(findings))
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(1)


def _lint(paths: Sequence[Path], version: str | None, baseline: Sequence[Path], own: Path | None) -> Sequence[Finding]:
    from provisioner.catalog.loader import load_catalog
    from provisioner.lint.engine import lint_paths
    from provisioner.lint.kubernetes import chosen_version

    wanted = chosen_version(version)
    try:
        catalog = load_catalog(overlay=own)
    except RejectedError as error:
        if not error.findings:
            raise
        return error.findings
    return lint_paths(paths, catalog=catalog, kubernetes=wanted, baseline=baseline, plans=_plans)


def _plans(catalog: Catalog, site: Site, tier: str) -> Iterable[EndpointPlan]:
    """The endpoints that stand for a tier; what plans is read only where there is a tier."""
    from provisioner.wiring.linting import reference_plans

    return reference_plans(catalog, site, tier)


def _explain(name: str) -> None:
    from provisioner.lint.rules import every_rule

    rules: dict[str, Rule] = {rule.id: rule for rule in every_rule()}
    if name not in rules:
        near = nearest_name(name, rules)
        hint = f"did you mean `{near}`?" if near else "ids stand in findings, and in docs/rules"
        raise NotFoundError(f"explaining a rule: unknown name: `{name}`", hint=hint)
    rule = rules[name]
    print(f"{rule.id} ({rule.severity.value})\n\n{rule.summary}\n\n{rule.explanation}".rstrip())
    print(f'\nSilence it on an object: lint.tenantry.io/ignore: "{rule.id}: <reason>"')


def _print_findings(findings: Sequence[Finding]) -> None:
    """For people: what belongs to a file below its name."""
    file = None
    for finding in findings:
        if finding.file != file:
            print(f"{'' if file is None else chr(10)}{_styled(visible(finding.file or ''), 1)}")
            file = finding.file
        place = " ".join(part for part in (finding.object, finding.field) if part)
        word = _styled(finding.severity.value, _COLOURS[finding.severity])
        print(f"  {finding.line or 1}: {word} {finding.rule}: {visible(finding.message)}")
        if place:
            print(f"      at:  {visible(place)}")
        if finding.hint:
            print(f"      fix: {visible(finding.hint)}")


def _styled(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() else text


def _count(findings: Sequence[Finding]) -> str:
    numbers = [(severity, sum(finding.severity is severity for finding in findings)) for severity in Severity]
    said = ", ".join(f"{number} {severity.value}{'s' if number > 1 else ''}" for severity, number in numbers if number)
    return said or "nothing found"
