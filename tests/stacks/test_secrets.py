"""No secret of a stack's config is ever in clear: in the graph, in outputs, in what is logged."""

from __future__ import annotations

from pathlib import Path

from tests.stacks.harness import run_stack


def test_secrets_of_the_platform_are_masked_wherever_they_go(tmp_path: Path) -> None:
    ran = run_stack("platform", folder=tmp_path)
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
