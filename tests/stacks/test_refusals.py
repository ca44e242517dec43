"""What a stack's program refuses: one message, exit code 1, no traceback, and nothing registered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--config", "tier=dedicatd"), ("`tenantry:tier`", "`dedicatd`", "did you mean `dedicated`?")),
        (("--config", "region=eu"), ("`tenantry:region`", "Pulumi.dedicated-eu.yaml", "eu-central-1")),
        (("--config", "site=elsewhere.yaml"), ("`tenantry:site`", "no such file: elsewhere.yaml")),
        (("--config", "site=README.md"), ("README.md",)),
        (("--config", "program=both"), ("`tenantry:program`", "`both`", "allowed: platform, tier")),
        (("--config", "platform="), ("tenantry:platform: empty", "pulumi config set platform")),
        (("--config", 'tier=["dedicated"]'), ("`tenantry:tier`", '`["dedicated"]`')),
        (("--config", "regoin=eu-central-1"), ("tenantry:regoin", "did you mean `region`?")),
        (("--config", "connectorSecret=hunter2"), ("tenantry:connectorSecret", "program `tier` reads no such key")),
        (("--config", "catalog=nowhere"), ("`tenantry:catalog`", "no such folder: nowhere")),
        (("--config", "fleet=nowhere.json"), ("`tenantry:fleet`", "nowhere.json", "tenantry fleet export")),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) and value[0] == "--config" else "",
)
def test_config_that_cannot_be_is_refused(arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    assert_refused(run_stack("dedicated-eu", *arguments, folder=tmp_path), *words)


def test_a_stack_that_nobody_configured_is_unknown(tmp_path: Path) -> None:
    assert_refused(
        run_stack("dedicated-us", folder=tmp_path), "Pulumi.dedicated-us.yaml", "copy the Pulumi.<stack>.yaml"
    )


def test_every_missing_key_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.new.yaml").write_text("config:\n  tenantry:program: tier\n")
    ran = run_stack("new", folder=tmp_path, root=tmp_path)
    assert_refused(ran, *(f"tenantry:{key}: not there" for key in ("platform", "region", "site", "tier")))


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


def test_a_platform_that_gives_its_kubeconfig_away_is_refused(tmp_path: Path) -> None:
    outputs = {PLATFORM: {"connector": "argocd-main", "kubeconfig": "users: [{name: admin}]"}}
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=outputs)
    assert_refused(ran, "`kubeconfig`", "in clear")
    assert "admin" not in ran.stderr


def test_a_published_version_that_would_change_is_refused(tmp_path: Path) -> None:
    """Ledger: TEN-13."""
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=published("1.0.0"))
    assert_refused(
        ran, "version 1.0.0", "`VirtualClusterTemplate/tenantry-dedicated`", "tenantry tier freeze dedicated"
    )


def test_a_published_version_does_not_go_while_nobody_says_what_runs(tmp_path: Path) -> None:
    ran = run_stack("dedicated-eu", folder=tmp_path, outputs=published("0.9.0"))
    assert_refused(ran, "0.9.0", "templates/dedicated/versions/0.9.0.yaml", "tenantry:fleet")


def test_a_published_version_does_not_go_while_an_endpoint_pins_it(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, {"ep-chat": "0.9.0"})
    ran = run_stack("dedicated-eu", "--config", f"fleet={fleet}", folder=tmp_path, outputs=published("0.9.0"))
    assert_refused(ran, "0.9.0", "ep-chat")


def test_a_version_that_nobody_pins_may_go_and_pins_are_told(tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, {"ep-chat": "1.0.0", "ep-code": "1.0.0"})
    ran = run_stack("dedicated-eu", "--config", f"fleet={fleet}", folder=tmp_path, outputs=published("0.9.0"))
    assert ran.graph["outputs"]["pins"] == {"1.0.0": {"count": 2, "endpoints": ["ep-chat", "ep-code"]}}
    assert "tier dedicated 1.0.0: pinned by 2 endpoints" in ran.stderr


def test_its_own_last_update_is_no_reason_to_refuse(tmp_path: Path) -> None:
    first = run_stack("dedicated-eu", folder=tmp_path).graph
    outputs = {**PLATFORM_OUTPUTS, DEDICATED: first["outputs"]}
    assert run_stack("dedicated-eu", folder=tmp_path, outputs=outputs).graph == first


def test_a_folder_without_the_pack_needs_only_its_stacks_and_site(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Pulumi.dedicated-eu.yaml", tmp_path)
    shutil.copy(ROOT / "provisioner/catalog/example-site.yaml", tmp_path / "site.yaml")
    ran = run_stack("dedicated-eu", "--config", "site=site.yaml", folder=tmp_path, root=tmp_path)
    assert ran.graph["outputs"]["tier"] == "dedicated"


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
