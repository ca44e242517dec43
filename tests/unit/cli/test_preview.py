"""`tenantry preview` from the command line: forms, exit codes, what is said where, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.pack import example_site
from provisioner.cli.main import main
from provisioner.preview.markdown import MARKER
from tests.unit.preview_units.repository import Workplace, make_repository

POD = "applications/runtimes/_shared/pod.j2"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def workplace(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A repository that commands run in."""
    folder = make_repository(tmp_path / "repository")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("TENANTRY_STATE", "TENANTRY_SITE", "TENANTRY_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    return Workplace(folder, cache)


def shorter(workplace: Workplace) -> None:
    """A change that restarts pods."""
    path = workplace.folder / POD
    path.write_text(path.read_text().replace("terminationGracePeriodSeconds: ", "terminationGracePeriodSeconds: 1"))


def test_nothing_to_tell_ends_with_0(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview"]) == 0
    told = capsys.readouterr()
    assert "working tree: nothing differs" in told.out
    assert "example site" in told.err


def test_disruptive_change_ends_with_3_unless_only_findings_count(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter(workplace)
    assert main(["preview", "--tier", "shared"]) == 3
    assert "pods restart" in capsys.readouterr().out
    assert main(["preview", "--tier", "shared", "--fail-on", "finding"]) == 0


def test_each_form_holds_the_report(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    shorter(workplace)
    assert main(["preview", "--tier", "shared", "-o", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["exitCode"], document["effect"]) == (3, "pods-restart")
    assert main(["preview", "--tier", "shared", "-o", "markdown"]) == 3
    assert capsys.readouterr().out.startswith(MARKER)


def test_same_change_is_printed_again_without_being_made_again(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter(workplace)
    assert main(["preview", "--tier", "shared"]) == 3
    first = capsys.readouterr().out

    def make_again(*_: Any, **__: Any) -> Any:
        raise AssertionError("made again")

    monkeypatch.setattr("provisioner.preview.units.make_sides", make_again)
    assert main(["preview", "--tier", "shared"]) == 3
    assert capsys.readouterr().out == first


def test_what_runs_is_read_from_a_file(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shorter(workplace)
    request: dict[str, Any] = {
        "name": "chat",
        "tenant": "acme",
        "model": "Qwen2-VL-2B-Instruct",
        "region": "eu-central-1",
    }
    request |= {"tier": "shared", "scaling": {"minReplicas": 1, "maxReplicas": 2}}
    endpoint = {"id": "ep-1", "tenant": "acme", "request": request, "templateVersion": "1.0.0", "replicas": 1}
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"endpoints": [endpoint]}))
    assert main(["preview", "--tier", "shared", "--against", str(fleet), "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["endpoints"] == 1
    fleet.write_text(json.dumps({"endpoints": [{**endpoint, "replicas": "one"}]}))
    assert main(["preview", "--against", str(fleet)]) == 1
    assert "endpoints[0].replicas" in capsys.readouterr().err


def test_file_of_what_runs_that_is_not_there_says_how_to_write_it(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "--against", "nowhere.json"]) == 1
    assert "tenantry endpoint export" in capsys.readouterr().err


def test_revision_that_is_not_there_ends_with_1_and_a_hint(
    workplace: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "--base", "nowhere"]) == 1
    told = capsys.readouterr().err
    assert "error: finding the revision of `--base`" in told
    assert "hint: `git fetch origin nowhere`, then `--base FETCH_HEAD`" in told
    assert main(["preview", "--head", "nowhere"]) == 1
    told = capsys.readouterr().err
    assert "error: finding the revision of `--head`" in told
    assert "hint: `git fetch origin nowhere`, then `--head FETCH_HEAD`" in told
    assert main(["preview", "--base", ""]) == 1  # a variable that a pipeline did not set
    assert "hint: give `--base` a branch, a tag or a commit" in capsys.readouterr().err


def test_site_of_the_installation_is_taken_and_told_where_none_is_named(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    laptop = tmp_path / "state" / "tenantry" / "site.yaml"
    laptop.parent.mkdir(parents=True)
    laptop.write_text(example_site().read_text().replace("name: example", "name: laptop"))
    told = f"no site is named: taking that of the installation here, {laptop}; TENANTRY_SITE names another\n"
    assert main(["preview", "-o", "json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["site"] == "laptop"
    assert said.err.startswith(told)
    assert main(["preview", "--site", str(laptop)]) == 0
    assert "no site is named" not in capsys.readouterr().err
    monkeypatch.setenv("TENANTRY_SITE", str(example_site()))
    assert main(["preview"]) == 0
    assert "no site is named" not in capsys.readouterr().err


def test_site_that_is_named_and_not_there_is_told(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANTRY_SITE", "elsewhere/site.yaml")
    assert main(["preview"]) == 1
    assert "no such file" in capsys.readouterr().err


def test_site_that_is_no_file_is_refused(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    for site in ("/nowhere/site.yaml", "/dev/zero"):
        assert main(["preview", "--site", site]) == 1
        assert f"reading the site: no file that can be read: {site}" in capsys.readouterr().err


def test_fleet_without_end_is_refused_by_its_size(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "--against", "/dev/zero"]) == 1
    assert "reading fleet: more bytes than 67108864" in capsys.readouterr().err
