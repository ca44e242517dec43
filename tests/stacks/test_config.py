"""A stack's config by itself: what is read, what is refused before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from provisioner.domain.errors import RejectedError
from stacks.config import PlatformConfig, StackName, TierConfig, read_config
from stacks.keys import KEYS, PLATFORM, PROJECT
from tests.stacks.harness import ROOT

NAME = StackName(organization="acme", project=PROJECT, stack="dedicated-eu", root=ROOT)
SITE = {"tenantry:site": "provisioner/catalog/example-site.yaml"}
TIER = {
    **SITE,
    "tenantry:program": "tier",
    "tenantry:tier": "dedicated",
    "tenantry:region": "eu-central-1",
    "tenantry:platform": "platform",
}
SECRETS = {f"{PROJECT}:{key}": f"value of {key}" for key, row in KEYS.items() if row.is_secret}
PLATFORM_VALUES = {**SITE, **SECRETS, "tenantry:program": PLATFORM}


def refused(values: Mapping[str, str], *, secret_keys: frozenset[str] = frozenset()) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        read_config(values, NAME, secret_keys=secret_keys)
    return caught.value


def test_a_tier_is_read_with_the_control_plane_of_its_region() -> None:
    config = read_config(TIER, NAME, secret_keys=())
    assert isinstance(config, TierConfig)
    assert (config.tier, config.control_plane, config.platform) == (
        "dedicated",
        "eu-central-1",
        "acme/tenantry/platform",
    )
    assert config.offer.site.name == "example"


def test_the_platform_may_be_a_stack_of_another_organization() -> None:
    config = read_config({**TIER, "tenantry:platform": "example/base/platform"}, NAME, secret_keys=())
    assert isinstance(config, TierConfig)
    assert config.platform == "example/base/platform"


async def test_secrets_stay_secret_outputs() -> None:
    config = read_config(PLATFORM_VALUES, NAME, secret_keys=SECRETS.keys())
    assert isinstance(config, PlatformConfig)
    assert config.kubeconfig is not None
    for held in (config.kubeconfig, *config.secrets.values()):
        assert await held.is_secret()
    assert "value of" not in repr(config)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("tier", "dedicatd", ("`tenantry:tier`", "`dedicatd`", "did you mean `dedicated`?")),
        ("tier", '["dedicated"]', ("`tenantry:tier`", '`["dedicated"]`', "allowed: dedicated")),
        ("region", "eu", ("`tenantry:region`", "Pulumi.dedicated-eu.yaml", "eu-central-1")),
        ("site", "elsewhere.yaml", ("`tenantry:site`", "no such file: elsewhere.yaml", "describe-a-site")),
        ("site", "Makefile", ("Makefile",)),
        ("catalog", "nowhere", ("`tenantry:catalog`", "no such folder: nowhere")),
        ("program", "both", ("`tenantry:program`", "`both`", "allowed: platform, tier")),
        ("platform", "", ("tenantry:platform: empty", "pulumi config set platform")),
        ("regoin", "eu-central-1", ("tenantry:regoin", "did you mean `region`?")),
        ("kubeconfig", "clusters: []", ("tenantry:kubeconfig", "program `tier` reads no such key")),
    ],
)
def test_config_that_cannot_be_is_refused(key: str, value: str, words: tuple[str, ...]) -> None:
    error = refused({**TIER, f"{PROJECT}:{key}": value})
    said = f"{error} {error.hint} {[(str(finding), finding.hint) for finding in error.findings]}"
    assert [word for word in words if word not in said] == []


def test_every_missing_key_is_said_at_once() -> None:
    error = refused({"tenantry:program": "tier"})
    assert [f"{finding}" for finding in error.findings] == [
        f"tenantry:{key}: not there" for key in ("platform", "region", "site", "tier")
    ]


def test_a_secret_in_clear_is_refused_without_being_shown() -> None:
    error = refused(PLATFORM_VALUES)
    assert {finding.field for finding in error.findings} == SECRETS.keys()
    assert {finding.reason for finding in error.findings} == {"SecretInClear"}
    assert not any("value of" in f"{finding}{finding.hint}" for finding in error.findings)


def test_keys_of_other_projects_are_none_of_ours() -> None:
    assert read_config({**TIER, "aws:region": "eu-west-1"}, NAME, secret_keys=())


def test_a_region_without_nodes_for_the_tier_is_refused(tmp_path: Path) -> None:
    text = (ROOT / SITE["tenantry:site"]).read_text()
    folder = StackName(organization="acme", project=PROJECT, stack="multinode-eu", root=tmp_path)
    (folder.root / "site.yaml").write_text(text.replace("[metal3, aws, kubevirt]", "[aws]"))
    with pytest.raises(RejectedError, match="nobody has nodes for tier `multinode` in: `eu-central-1`"):
        read_config({**TIER, "tenantry:site": "site.yaml", "tenantry:tier": "multinode"}, folder, secret_keys=())
