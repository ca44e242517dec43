"""Changes that cannot be read: what is wrong is told with its place, and whatever can be shown is shown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.pack import example_site
from provisioner.domain.errors import RejectedError
from provisioner.preview.report import Report
from provisioner.preview.rows import failure_rows
from provisioner.preview.verdict import exit_code
from tests.unit.preview_units.repository import MODELS, Workplace, failures, git, tiers

CONFLICT = "<<<<<<< HEAD\nversion: 1.0.1\n=======\nversion: 1.0.2\n>>>>>>> other\n"


def refused(workplace: Workplace, **asked: Any) -> RejectedError:
    """Why nothing is previewed."""
    with pytest.raises(RejectedError) as error:
        workplace.preview(**asked)
    return error.value


def only(report: Report, tier: str) -> str:
    """What is wrong with the only tier that cannot be rendered."""
    told = failures(report)
    assert list(told) == [tier]
    assert exit_code(report) == 1
    return told[tier]


def test_merge_conflict_in_a_tier_is_named_and_the_other_tiers_are_shown(workplace: Workplace) -> None:
    workplace.edit("templates/dedicated/tier.yaml", "version: 1.0.0\n", CONFLICT)
    workplace.edit("templates/shared/tier.yaml", "virtualclusterinstances:", "spaceinstances:")
    report = workplace.preview()
    told = only(report, "dedicated")
    assert told == "templates/dedicated/tier.yaml:3: reading file: an unresolved merge conflict stands in it"
    assert tiers(report)["shared"].state == "changed"


def test_merge_conflict_in_a_part_is_named_in_every_tier_that_reads_it(workplace: Workplace) -> None:
    workplace.write("templates/_parts/values/sync.yaml.j2", CONFLICT)
    report = workplace.preview()
    told = failures(report)
    assert "shared" in told and "dedicated" not in told
    assert told["shared"].startswith("templates/_parts/values/sync.yaml.j2:1: ")
    assert "merge conflict" in told["shared"]


def test_template_that_fails_on_one_side_only_is_told_with_file_and_line(workplace: Workplace) -> None:
    workplace.write("templates/isolated/project.yaml.j2", "kind: Project\nmetadata:\n  name: {{ projct }}\n")
    report = workplace.preview()
    assert only(report, "isolated").startswith("templates/isolated/project.yaml.j2:3: ")
    assert {failure.side for failure in tiers(report)["isolated"].failures} == {"head"}


def test_template_that_the_change_mends_is_no_failure_of_the_change(workplace: Workplace) -> None:
    workplace.write("templates/isolated/project.yaml.j2", "{% if %}")
    workplace.commit()
    (workplace.folder / "templates/isolated/project.yaml.j2").unlink()
    report = workplace.preview(base="HEAD")
    assert {failure.side for failure in tiers(report)["isolated"].failures} == {"base"}


def test_tier_that_is_no_yaml_leaves_the_others(workplace: Workplace) -> None:
    workplace.write("templates/isolated/tier.yaml", "name: [isolated\n")
    assert "templates/isolated/tier.yaml:" in only(workplace.preview(), "isolated")


def test_tier_without_its_head_file_is_told(workplace: Workplace) -> None:
    workplace.write("templates/shared/project.yaml.j2", "kind: Project\n")
    (workplace.folder / "templates/shared/tier.yaml").unlink()
    assert "templates/shared/tier.yaml" in only(workplace.preview(), "shared")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("tenancy: pool", "tenancy: [pool]", "tenancy: reading value: "),
        ("stack: [external-secrets, prometheus, keda]", "stack: 5", "stack: reading value: "),
        ("stack: [external-secrets, prometheus, keda]", "stack: [kedaa]", "unknown `kedaa`"),
        ("    replicas: 3\n", "    replicas: 1\n", "production needs two replicas at least, found 1"),
    ],
)
def test_wrong_value_in_a_tier_is_told_with_its_place_and_what_to_do(
    workplace: Workplace, before: str, after: str, told: str
) -> None:
    """Ledger: TEN-15 (its last case)."""
    workplace.edit("templates/shared/tier.yaml", before, after)
    workplace.edit("templates/dedicated/tier.yaml", "virtualclusterinstances:", "spaceinstances:")
    report = workplace.preview()
    assert told in only(report, "shared")
    assert only(report, "shared").startswith("templates/shared/tier.yaml:")
    assert tiers(report)["dedicated"].state == "changed"
    (row,) = failure_rows(report)
    assert row.cells[1].startswith("shared")
    assert row.cells[3].endswith(")")


def test_policy_that_is_no_object_is_an_error_of_the_tiers_that_bring_it(workplace: Workplace) -> None:
    workplace.write("policies/admission/host-access/policy.yaml", "spec: 5\n")
    report = workplace.preview(tiers=("dedicated",))
    told = [one.finding.message for one in report.findings.new if one.finding.rule == "objects-unreadable"]
    assert told == [
        "changing VirtualClusterTemplate tenantry-dedicated: not every document in it is a Kubernetes object: "
        "no tenant cluster can take it"
    ]
    assert exit_code(report) == 4


def test_model_that_cannot_be_read_is_told_beside_the_tiers(workplace: Workplace) -> None:
    workplace.write(f"{MODELS}/broken.yaml", "id: broken\n")
    assert "broken.yaml" in failures(workplace.preview())["catalog"]


def test_broken_versions_leave_nothing_of_their_side(workplace: Workplace) -> None:
    workplace.write("versions.yaml", CONFLICT)
    report = workplace.preview()
    assert sorted(failures(report)) == ["dedicated", "isolated", "multinode", "partitioned", "platform", "shared"]
    assert "versions.yaml:1" in failures(report)["shared"]
    assert exit_code(report) == 1


def test_versions_that_are_broken_on_both_sides_are_refused(workplace: Workplace) -> None:
    workplace.write("versions.yaml", CONFLICT)
    workplace.commit()
    error = refused(workplace, base="HEAD")
    assert [str(finding) for finding in error.findings] == [
        "versions.yaml:1: reading file: an unresolved merge conflict stands in it"
    ]


def test_base_that_is_not_there_says_what_to_fetch(workplace: Workplace) -> None:
    error = refused(workplace, base="release-1")
    assert error.reason == "UnknownRevision"
    assert "git fetch origin release-1" in (error.hint or "")


def test_shallow_clone_without_a_common_commit_says_what_to_fetch(workplace: Workplace, tmp_path: Path) -> None:
    git(workplace.folder, "checkout", "-q", "-b", "change")
    workplace.edit("templates/shared/tier.yaml", "description: ", "description: Another, ")
    workplace.commit()
    git(workplace.folder, "checkout", "-q", "main")
    clone = tmp_path / "clone"
    shallow = ("--depth=1", "--no-single-branch", "--branch=change")
    git(tmp_path, "clone", "-q", *shallow, f"file://{workplace.folder}", str(clone))
    error = refused(Workplace(clone, workplace.cache))
    assert "git fetch --deepen" in (error.hint or "")


def test_shallow_clone_with_the_parent_is_enough(workplace: Workplace, tmp_path: Path) -> None:
    workplace.edit("templates/shared/tier.yaml", "virtualclusterinstances:", "spaceinstances:")
    workplace.commit()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{workplace.folder}", str(clone))
    report = Workplace(clone, workplace.cache).preview(base="HEAD^1", head="HEAD")
    assert list(tiers(report)) == ["shared"]


def test_unknown_tier_comes_with_the_nearest_name(workplace: Workplace) -> None:
    error = refused(workplace, tiers=("dedicatd",))
    assert "did you mean `dedicated`" in (error.hint or "")


def test_submodule_is_told(workplace: Workplace, tmp_path: Path) -> None:
    shutil.move(workplace.folder / "templates", tmp_path / "templates")
    git(workplace.folder, "rm", "-q", "-r", "--cached", "templates")
    git(tmp_path / "templates", "init", "-q", "-b", "main")
    git(tmp_path / "templates", "add", ".")
    git(tmp_path / "templates", "commit", "-q", "-m", "templates")
    allowed = ("-c", "protocol.file.allow=always")
    git(workplace.folder, *allowed, "submodule", "--quiet", "add", str(tmp_path / "templates"), "templates")
    workplace.commit()
    workplace.edit("templates/shared/tier.yaml", "description: ", "description: Dirty, ")
    error = refused(workplace, base="HEAD")
    assert error.reason == "Submodule"
    assert "`templates`" in error.message


def test_site_in_a_submodule_is_the_same_on_both_sides_and_that_is_told(workplace: Workplace, tmp_path: Path) -> None:
    sites = Workplace(tmp_path / "sites", workplace.cache)
    sites.write("eu/site.yaml", example_site().read_text())
    git(sites.folder, "init", "-q", "-b", "main")
    sites.commit()
    allowed = ("-c", "protocol.file.allow=always")
    git(workplace.folder, *allowed, "submodule", "--quiet", "add", str(sites.folder), "sites")
    workplace.commit()
    workplace.edit("sites/eu/site.yaml", "name: example", "name: elsewhere")
    report = workplace.preview(base="HEAD", site=workplace.folder / "sites/eu/site.yaml")
    assert (report.site, report.units) == ("elsewhere", 0)
    assert workplace.told == ["the site lies in the submodule `sites`: both sides get it as it is checked out there"]


def test_folder_without_a_repository_is_told(workplace: Workplace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(RejectedError) as error:
        workplace.preview(folder=tmp_path / "elsewhere")
    assert error.value.reason == "NoRepository"


def test_repository_without_templates_is_told(workplace: Workplace, tmp_path: Path) -> None:
    other = Workplace(tmp_path / "other", workplace.cache)
    other.write("README.md", "nothing\n")
    git(other.folder, "init", "-q", "-b", "main")
    other.commit()
    assert refused(other).reason == "NothingToPreview"


def test_site_that_only_one_side_has_fails_that_side(workplace: Workplace) -> None:
    workplace.write("site.yaml", example_site().read_text())
    report = workplace.preview(site=workplace.folder / "site.yaml")
    assert "no such file: site.yaml" in failures(report)["shared"]


def test_revision_counted_from_a_commit_is_deepened_not_fetched_by_name(workplace: Workplace, tmp_path: Path) -> None:
    shallow = Workplace(tmp_path / "shallow", workplace.cache)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{workplace.folder}", "shallow")
    assert "git fetch --deepen" in str(refused(shallow, base="HEAD^1").hint)
