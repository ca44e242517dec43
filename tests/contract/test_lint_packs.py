"""`tenantry lint` compiles a catalog folder as publishing and planning would, and judges what it makes.

Samples are our own pack with one thing changed, as a provider would change it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provisioner.catalog.pack import pack_root
from provisioner.domain.finding import Finding, Severity
from provisioner.lint.engine import lint_paths
from provisioner.wiring.linting import reference_plans
from tests.lint.worlds import catalog, told

BUDGET = "applications/runtimes/_shared/endpoint/disruption-budget.yaml.j2"
SERVICE = "applications/runtimes/_shared/endpoint/service.yaml.j2"
ROUTE = "applications/runtimes/_shared/replica/route.yaml.j2"
NETWORKING = "templates/_parts/values/networking.yaml.j2"
NODES = "templates/_parts/values/private-nodes.yaml.j2"

CHANGES = [
    (BUDGET, 'name: "{{ workload }}"', 'name: "{{ worklod }}"', "template-refused", "worklod"),
    (BUDGET, 'name: "{{ workload }}"', "name: {{ workload }}", "template-refused", "outside quotes"),
    (SERVICE, "{% if not shape.spans_nodes %}", "{% if endpoint == 'x' %}", "template-refused", "compared"),
    (SERVICE, "      targetPort: {{", "      targetPort:{{", "template-refused", "no YAML"),
    (BUDGET, '      tenantry.io/endpoint: "{{ endpoint }}"', '      tenantry.io/endpoint: "{{ tenant }}"',
     "budget-selects-nothing", "tenantry.io/endpoint=acme"),
    (ROUTE, "      timeouts:\n        request: 0s\n", "", "route-without-timeout", "timeout"),
    (NETWORKING, "10.128.0.0/16", "10.64.0.0/18", "network-ranges-overlap", "overlaps"),
    (NODES, "hole('burstNodes')", "hole('burstNode')", "hole-without-parameter", "burstNode"),
]  # fmt: skip

PRINTED_AT = {"hole-without-parameter": 'nodes: "{{ limit }}"'}
"""Where a macro prints what is changed."""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A folder with one tier and the templates that ship."""
    root = tmp_path / "pack"
    for name in ("templates/dedicated", "templates/_parts", "applications/runtimes"):
        shutil.copytree(pack_root() / name, root / name)
    return root


def linted(folder: Path) -> tuple[Finding, ...]:
    """Every finding about a folder, as the command tells it."""
    return lint_paths([folder], catalog=catalog(), kubernetes=(1, 36), plans=reference_plans)


def test_what_ships_has_no_finding(pack: Path) -> None:
    found = linted(pack)
    assert not found, told(found)


@pytest.mark.parametrize(("file", "old", "new", "rule", "word"), CHANGES, ids=[change[3] for change in CHANGES])
def test_a_change_is_judged_by_what_it_makes(pack: Path, file: str, old: str, new: str, rule: str, word: str) -> None:
    text = (pack / file).read_text()
    assert text.count(old) == 1
    (pack / file).write_text(text.replace(old, new))
    found = linted(pack)
    (finding,) = [one for one in found if one.rule == rule]
    assert finding.file == (pack / file).as_posix(), told(found)
    assert word in finding.message
    assert finding.severity is not Severity.INFO
    place = text[: text.index(PRINTED_AT.get(rule, old))].count("\n") + 1
    assert finding.line is not None
    assert abs(finding.line - place) <= 10, (finding.line, place)
