"""No secret of a stack's config is ever in clear: in the graph, in outputs, in what is logged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.stacks.harness import PLATFORM, run_stack


def test_secrets_of_the_platform_are_masked_wherever_they_go(tmp_path: Path) -> None:
    """Ledger: SEC-01."""
    ran = run_stack("platform", "--secret", "kubeconfig", folder=tmp_path)
    assert ran.graph["outputs"]["kubeconfig"] == "[secret]"
    (provider,) = (made for made in ran.graph["resources"] if made["type"] == "pulumi:providers:kubernetes")
    assert provider["properties"]["kubeconfig"] == "[secret]"
    (connector,) = (made for made in ran.resources("Secret") if "argocd-main" in made["name"])
    assert "[secret]" in str(connector["properties"])
    assert "made-up" not in ran.stdout + ran.stderr


def test_the_platforms_kubeconfig_stays_secret_in_a_tiers_stack(tmp_path: Path) -> None:
    ran = run_stack("dedicated-eu", folder=tmp_path)
    (provider,) = (made for made in ran.graph["resources"] if made["type"] == "pulumi:providers:kubernetes")
    assert provider["properties"]["kubeconfig"] == "[secret]"
    assert "kubeconfig" not in ran.graph["outputs"]


def test_a_refused_run_exports_what_the_last_one_did(tmp_path: Path) -> None:
    """Pulumi keeps the outputs of the run that ended last, well or not: without them tiers would lose the platform."""
    last = {"connector": "argocd-main", "kubeconfig": "[secret]"}
    ran = run_stack("platform", "--config", "site=nowhere.yaml", folder=tmp_path, outputs={PLATFORM: last})
    assert ran.code == 1
    assert json.loads(ran.stdout)["outputs"] == last
