"""The platform's program: secrets in their places, groups in order, and what it wants to be told first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from provisioner.domain.errors import RejectedError
from provisioner.rendering.pack import compile_pack
from provisioner.rendering.platform import GROUPS, SECRETS
from stacks.config import Offer, PlatformConfig
from stacks.group import Group, GroupArgs
from stacks.keys import config_key
from stacks.platform.installation import Installation, InstallationArgs
from stacks.platform.program import run
from stacks.platform.secrets import MARKS, named_secrets, with_secrets
from tests.stacks.harness import run_stack
from tests.stacks.mocks import manifest, register
from tests.stacks.test_refusals import assert_refused
from tests.unit.rendering.examples import catalog
from tests.unit.rendering.installations import site_of

NASTY = 'quote " backslash \\ line\nend'


async def test_group_makes_its_objects_after_others_and_under_the_clusters_name() -> None:
    def make(provider: pulumi.ProviderResource) -> Group:
        first = Group("eu-first", group_args("namespaces", provider, manifest("Namespace", "ours", api_version="v1")))
        return Group(
            "eu-second", group_args("connection", provider, manifest("User", "tenantry-runtime"), after=first.made)
        )

    monitor = await register(make)
    assert monitor.components == ["Namespaces", "Connection"]
    request = monitor.requests["eu/User/tenantry-runtime"]
    assert [urn.rpartition("::")[2] for urn in request.dependencies] == ["eu/Namespace/ours"]
    assert monitor.requests["eu/Namespace/ours"].protect


async def test_installation_fills_every_hole_of_a_site_that_wants_all_secrets() -> None:
    """Ledger: SEC-01, ADM-14."""
    groups = compile_pack(catalog(), site_of("several-regions")).platform_groups(secrets=MARKS)
    assert named_secrets(groups) == frozenset(SECRETS)

    def make(provider: pulumi.ProviderResource) -> Installation:
        held = {name: pulumi.Output.secret(f"{name} {NASTY}") for name in SECRETS}
        return Installation("eu", InstallationArgs(groups=groups, secrets=held, provider=provider))

    monitor = await register(make)
    inputs = {name: unwrapped(monitor.inputs(name)) for name in monitor.requests if name != "eu"}
    assert "REPLACE_ME" not in json.dumps(inputs)
    kubeconfig = inputs["eu/Secret/tenantry/tenantry-runtime"]["stringData"]["kubeconfig"]
    key = inputs["eu/OwnedAccessKey/tenantry-runtime-2027q1"]["spec"]["key"]
    assert yaml.safe_load(kubeconfig)["users"][0]["user"] == {"token": key}
    assert key == f"runtime_key {NASTY}"
    values = yaml.safe_load(inputs["eu/Secret/vcluster-platform/tenantry-platform-values"]["stringData"]["values.yaml"])
    assert values["config"]["database"]["dataSource"] == f"platform_database {NASTY}"
    assert [name.lower() for name in monitor.components] == ["installation", *GROUPS]
    after = [
        urn.rpartition("::")[2] for urn in monitor.requests["eu/OwnedAccessKey/tenantry-runtime-2027q1"].dependencies
    ]
    assert "eu/User/tenantry-runtime" in after


async def test_what_is_the_platforms_own_is_made_where_it_runs_and_all_else_everywhere() -> None:
    offer = Offer(site=site_of("several-regions"), catalog=catalog(), overlay=None)

    def make(_: pulumi.ProviderResource) -> None:
        held = {name: pulumi.Output.secret(name) for name in SECRETS}
        run(PlatformConfig(offer=offer, kubeconfig=None, secrets=held))

    monitor = await register(make)
    assert monitor.components.count("Installation") == monitor.components.count("Server") == 2
    assert monitor.components.count("Platform") == 1
    assert "us-east-1/User/tenantry-runtime" in monitor.requests
    assert "eu-central-1/User/tenantry-runtime" not in monitor.requests
    assert {"eu-central-1/Gateway/tenantry/public", "us-east-1/Gateway/tenantry/public"} <= monitor.requests.keys()


async def test_text_without_a_mark_stays_as_it_is() -> None:
    value = {"a": ["REPLACE_ME", 1, None, True], "b": {"c": "REPLACE_ME["}}
    assert with_secrets(value, {}) == value


async def test_every_secret_that_the_site_wants_and_nobody_gave_is_named() -> None:
    offer = Offer(site=site_of("several-regions"), catalog=catalog(), overlay=None)
    given = {"runtime_key", "bootstrap_key"}
    refusals: list[RejectedError] = []

    def make(_: pulumi.ProviderResource) -> None:
        held = {name: pulumi.Output.secret(name) for name in given}
        with pytest.raises(RejectedError) as refused:
            run(PlatformConfig(offer=offer, kubeconfig=None, secrets=held))
        refusals.append(refused.value)

    monitor = await register(make)
    [refusal] = refusals
    wanted = sorted(f"tenantry:{config_key(name)}" for name in SECRETS.keys() - given)
    assert sorted(finding.field for finding in refusal.findings) == wanted
    assert all(str(finding.hint).startswith("pulumi config set --secret ") for finding in refusal.findings)
    assert monitor.components == []


def test_a_site_that_says_nothing_of_an_installation_is_refused(tmp_path: Path) -> None:
    ran = run_stack("platform", "--config", "site=tests/golden/site.yaml", folder=tmp_path)
    assert_refused(ran, "`installation`", "docs/how-to/install.md")


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_secrets_of_the_installation_are_keys_of_the_stacks_config(name: str) -> None:
    assert "_" not in config_key(name)
    assert config_key(name)[0].islower()


def group_args(group: str, provider: pulumi.ProviderResource, *manifests: Any, after: Any = ()) -> GroupArgs:
    return GroupArgs(
        part=f"platform:{group.capitalize()}", within="eu", manifests=manifests, provider=provider, after=after
    )


def unwrapped(value: Any) -> Any:
    """A value as registered, secrets told."""
    if isinstance(value, dict) and "4dabf18193072939515e22adb298388d" in value:
        return unwrapped(value["value"])
    if isinstance(value, dict):
        return {key: unwrapped(item) for key, item in value.items()}
    return [unwrapped(item) for item in value] if isinstance(value, list) else value
