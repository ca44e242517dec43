"""`tenantry tier freeze`: a version that was published stays beside the next one, with everything that it names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from provisioner.catalog.loader import load_catalog, load_site
from provisioner.catalog.pack import example_site, pack_root
from provisioner.cli.main import main
from provisioner.rendering.pack import compile_pack
from tests.stacks.harness import PLATFORM_OUTPUTS, run_stack

TIERS = sorted(load_catalog().tiers)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A provider's own folder, and the example site."""
    monkeypatch.setenv("TENANTRY_SITE", str(example_site()))
    monkeypatch.delenv("TENANTRY_CATALOG", raising=False)
    folder = tmp_path / "catalog"
    (folder / "templates").mkdir(parents=True)
    return folder


def rendered(tier: str, catalog: Path | None = None) -> tuple[dict[str, Any], ...]:
    return compile_pack(load_catalog(overlay=catalog), load_site(example_site()), overlay=catalog).tier_objects(tier)


def raise_version(catalog: Path, tier: str, version: str) -> None:
    """What a provider does in a folder of their own: the tier, with a new version."""
    yaml = YAML(typ="safe")
    described = yaml.load((pack_root() / "templates" / tier / "tier.yaml").read_text())
    with (catalog / "templates" / tier / "tier.yaml").open("w") as file:
        yaml.dump({**described, "version": version}, file)


@pytest.mark.parametrize("tier", TIERS)
def test_a_frozen_version_renders_as_before(tier: str, catalog: Path) -> None:
    before = rendered(tier)
    assert main(["tier", "freeze", tier, "--catalog", str(catalog)]) == 0
    assert rendered(tier, catalog) == before
    assert main(["tier", "freeze", tier, "--catalog", str(catalog)]) == 0


@pytest.mark.parametrize("tier", TIERS)
def test_the_next_version_comes_beside_everything_of_the_one_before(tier: str, catalog: Path) -> None:
    before = rendered(tier)
    main(["tier", "freeze", tier, "--catalog", str(catalog)])
    raise_version(catalog, tier, "1.1.0")
    after = rendered(tier, catalog)
    named = {(made["kind"], made["metadata"]["name"]): made for made in after}
    template = named.pop(("VirtualClusterTemplate", f"tenantry-{tier}"))
    assert [entry["version"] for entry in template["spec"]["versions"]] == ["1.0.0", "1.1.0"]
    assert template["spec"]["versions"][0] == before[-1]["spec"]["versions"][0]
    for made in before[:-1]:
        assert named[made["kind"], made["metadata"]["name"]] == made
    assert after[-1]["kind"] == "VirtualClusterTemplate"


def test_a_stack_publishes_the_next_version_once_the_one_before_is_frozen(catalog: Path, tmp_path: Path) -> None:
    first = run_stack("dedicated-eu", folder=tmp_path).graph["outputs"]
    outputs = {**PLATFORM_OUTPUTS, "organization/tenantry/dedicated-eu": first}
    (catalog / "templates" / "dedicated").mkdir()
    raise_version(catalog, "dedicated", "1.1.0")
    refused = run_stack("dedicated-eu", "--config", f"catalog={catalog}", folder=tmp_path, outputs=outputs)
    assert refused.code == 1
    assert "versions/1.0.0.yaml" in refused.stderr
    shutil.rmtree(catalog / "templates" / "dedicated")
    main(["tier", "freeze", "dedicated", "--catalog", str(catalog)])
    raise_version(catalog, "dedicated", "1.1.0")
    second = run_stack("dedicated-eu", "--config", f"catalog={catalog}", folder=tmp_path, outputs=outputs)
    versions = second.graph["outputs"]["versions"]
    assert sorted(versions) == ["1.0.0", "1.1.0"]
    assert versions["1.0.0"] == first["versions"]["1.0.0"]


def test_a_frozen_version_is_not_written_over(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tier", "freeze", "shared", "--catalog", str(catalog)])
    frozen = catalog / "templates" / "shared" / "versions" / "1.0.0.yaml"
    frozen.write_text(frozen.read_text().replace("tenantry", "changed", 1))
    text = frozen.read_bytes()
    assert main(["tier", "freeze", "shared", "--catalog", str(catalog)]) == 1
    assert "it differs from the published version: 1.0.0" in capsys.readouterr().err
    assert frozen.read_bytes() == text


def test_what_lies_beside_a_frozen_version_must_be_of_that_version(
    catalog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tier", "freeze", "shared", "--catalog", str(catalog)])
    folder = catalog / "templates" / "shared" / "versions" / "1.0.0"
    (folder / "config.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n")
    assert main(["tier", "freeze", "shared", "--catalog", str(catalog)]) == 1
    assert "versions/1.0.0/config.yaml" in capsys.readouterr().err


def test_a_file_beside_frozen_versions_that_is_named_otherwise_is_refused(
    catalog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tier", "freeze", "shared", "--catalog", str(catalog)])
    kept = catalog / "templates" / "shared" / "versions" / "1.0.0.yaml"
    kept.with_name("next.yaml").write_text(kept.read_text().replace("version: 1.0.0", "version: next"))
    assert main(["tier", "freeze", "shared", "--catalog", str(catalog)]) == 1
    assert "versions/next.yaml" in capsys.readouterr().err
