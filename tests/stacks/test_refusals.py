"""What a stack's program refuses: one message, exit code 1, no traceback, and nothing registered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stacks.offline import main
from tests.stacks.harness import PLATFORM, PLATFORM_OUTPUTS, ROOT, Ran, run_stack

DEDICATED = "organization/tenantry/dedicated-eu"
DIGEST = f"sha256:{'0' * 64}"


def assert_refused(ran: Ran, *words: str) -> None:
    """One message that says all of it, and nothing registered."""
    assert ran.code == 1, ran.stderr
    assert json.loads(ran.stdout)["resources"] == []
    assert "Traceback" not in ran.stderr
    missing = [word for word in words if word not in ran.stderr]
    assert not missing, ran.stderr


def test_config_that_cannot_be_is_refused_in_one_message(tmp_path: Path) -> None:
    ran = run_stack("dedicated-eu", "--config", "tier=dedicatd", folder=tmp_path)
    assert_refused(ran, "`tenantry:tier`", "Pulumi.dedicated-eu.yaml", "`dedicatd`", "did you mean `dedicated`?")


def test_a_fleet_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ran = run_stack("dedicated-eu", "--config", "fleet=nowhere.json", folder=tmp_path)
    assert_refused(ran, "`tenantry:fleet`", "nowhere.json", "tenantry endpoint export")


def test_a_stack_that_nobody_configured_is_unknown_and_others_are_named(tmp_path: Path) -> None:
    assert_refused(
        run_stack("dedicated-us", folder=tmp_path),
        "Pulumi.dedicated-us.yaml",
        "did you mean `dedicated-eu`?",
        "shared-eu",
        "copy the Pulumi.<stack>.yaml",
    )


def test_a_platform_that_is_not_up_is_said(tmp_path: Path) -> None:
    outputs: Mapping[str, Any] = {PLATFORM: {}}
    assert_refused(
        run_stack("dedicated-eu", folder=tmp_path, outputs=outputs),
        PLATFORM,
        "`connector`",
        "pulumi up --stack platform",
    )


def test_a_platform_with_another_connector_is_refused(tmp_path: Path) -> None:
    """Ledger: ARG-01."""
    outputs = {PLATFORM: {"connector": "argocd-old"}}
    assert_refused(run_stack("dedicated-eu", folder=tmp_path, outputs=outputs), "`argocd-main`", "`argocd-old`")


def test_a_control_plane_cluster_that_the_platform_is_not_up_on_is_refused(tmp_path: Path) -> None:
    """There would be none of the kinds there that a tier is made of."""
    outputs = {PLATFORM: {"connector": "argocd-main", "controlPlanes": ["eu-west-1"]}}
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=outputs)
    assert_refused(ran, PLATFORM, "`eu-central-1`", "pulumi up --stack platform", "eu-west-1")


def test_a_platform_that_gives_its_kubeconfig_away_is_refused(tmp_path: Path) -> None:
    outputs = {PLATFORM: {"connector": "argocd-main", "kubeconfig": "users: [{name: admin}]"}}
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=outputs)
    assert_refused(ran, "`kubeconfig`", "in clear")
    assert "admin" not in ran.stderr


def test_a_published_version_that_would_change_is_refused(tmp_path: Path) -> None:
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=published("1.0.0"))
    assert_refused(
        ran, "version 1.0.0", "`VirtualClusterTemplate/tenantry-dedicated`", "tenantry tier freeze dedicated"
    )


def test_a_version_that_nobody_pins_may_go_and_pins_are_told(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, {"ep-chat": "1.0.0", "ep-code": "1.0.0"})
    ran = run_stack("dedicated-eu", "--config", f"fleet={fleet}", folder=tmp_path, outputs=published("0.9.0"))
    assert ran.graph["outputs"]["pins"] == {"1.0.0": {"count": 2, "endpoints": ["ep-chat", "ep-code"]}}
    assert "tier dedicated 1.0.0: pinned by 2 endpoints" in ran.stderr


def test_its_own_last_update_is_no_reason_to_refuse(tmp_path: Path) -> None:
    first = run_stack("dedicated-eu", folder=tmp_path).graph
    outputs = {**PLATFORM_OUTPUTS, DEDICATED: first["outputs"]}
    assert run_stack("dedicated-eu", folder=tmp_path, outputs=outputs).graph == first


def test_stacks_beside_a_refused_one_are_still_shown(tmp_path: Path) -> None:
    for stack in ("dedicated-eu", "shared-eu"):
        shutil.copy(ROOT / f"Pulumi.{stack}.yaml", tmp_path)
    shutil.copy(ROOT / "provisioner/catalog/example-site.yaml", tmp_path / "site.yaml")
    (tmp_path / "Pulumi.broken.yaml").write_text("config: [tier]\n")
    ran = run_stack(
        "dedicated-eu", "broken", "unknown", "shared-eu", "--config", "site=site.yaml", folder=tmp_path, root=tmp_path
    )
    graphs = json.loads(ran.stdout)
    assert ran.code == 1
    assert {stack: bool(graph["resources"]) for stack, graph in graphs.items()} == {
        "broken": False,
        "dedicated-eu": True,
        "shared-eu": True,
        "unknown": False,
    }
    assert "Pulumi.broken.yaml" in ran.stderr and "Pulumi.unknown.yaml" in ran.stderr


@pytest.mark.parametrize(
    ("stack_file", "outputs", "words"),
    [
        ("config: [tier]\n", "{}", ("`config` is no mapping", "Pulumi.new.yaml")),
        ("<<<<<<< ours\nconfig: {}\n", "{}", ("Pulumi.new.yaml",)),
        ("config: {}\n", "[1]", ("outputs.json", "stack -> outputs")),
        ("config: {tenantry:platform: nowhere}\n", "{}", ("`nowhere`", "`--outputs`")),
    ],
    ids=["list", "conflict", "outputs", "platform"],
)
def test_the_harness_says_what_it_cannot_read(
    stack_file: str, outputs: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Pulumi.new.yaml").write_text(stack_file)
    file = tmp_path / "outputs.json"
    file.write_text(outputs)
    assert main(["--stack", "new", "--folder", str(tmp_path), "--outputs", str(file)]) == 1
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []


def test_config_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stack", "dedicated-eu", "--config", "tier"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "error: reading `--config`: no `=` in it: `tier`",
        "hint: KEY=VALUE, for example tier=dedicated",
    ]


@pytest.mark.parametrize("package", ["pulumi", "grpc"])
def test_packages_that_are_not_installed_are_told_in_one_line(package: str) -> None:
    program = f"import sys; sys.modules['{package}'] = None; from stacks.offline import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "--stack", "dedicated-eu"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: running stacks: a Python package is not there: {package}",
        "hint: `pip install -e '.[pulumi]'` in the clone that the stacks are in",
    ]


def published(version: str) -> Mapping[str, Any]:
    """Outputs of a last update that published one version with a content of its own."""
    versions = {version: {"VirtualClusterTemplate/tenantry-dedicated": DIGEST}}
    return {**PLATFORM_OUTPUTS, DEDICATED: {"versions": versions}}


def write_fleet(folder: Path, pins: Mapping[str, str]) -> Path:
    """fleet.json with endpoints that pin versions."""
    endpoints = [
        {"id": name, "tenant": "acme", "request": {"tier": "dedicated"}, "templateVersion": version, "replicas": 1}
        for name, version in pins.items()
    ]
    path = folder / "fleet.json"
    path.write_text(json.dumps({"endpoints": endpoints}))
    return path
