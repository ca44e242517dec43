"""What the loader refuses, and how well it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioner.catalog.checks import check_site
from provisioner.catalog.loader import load_site
from provisioner.catalog.model import Model
from provisioner.catalog.offer import offered_models
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding
from tests.unit.catalog.packs import PACK, copied_pack, load_copy, site_with, small_catalog, small_site


def findings_after(tmp_path: Path, file: str, old: str, new: str) -> tuple[Finding, ...]:
    """The findings of a pack in one file of which `old` was replaced."""
    root = copied_pack(tmp_path)
    path = root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(RejectedError) as caught:
        load_site(path) if file == "site.yaml" else load_copy(root)
    return caught.value.findings


def test_a_model_round_trips_all_its_fields() -> None:
    """Ledger: CAT-01."""
    model = small_catalog().models["tiny"]
    assert model.master.image == "llama-cpp"
    assert model.master.serving == {"contextSize": 4096, "parallel": 2}
    assert model.master.hardware.memory == "1Gi"
    assert Model.model_validate_json(model.model_dump_json(by_alias=True)) == model


def test_a_slash_in_an_id_is_two_dashes_in_the_file_name() -> None:
    assert "acme/speech" in small_catalog().models


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "models/tiny.yaml",
            "runtime: llama-cpp",
            "runtme: llama-cpp",
            "tiny.yaml:6: master.runtme: reading field: unknown name `runtme`|did you mean `runtime`?",
        ),
        (
            "models/tiny.yaml",
            "runtime: llama-cpp",
            "runtime: lama-cpp",
            "tiny.yaml:6: master.runtime: reading runtime: unknown `lama-cpp`|did you mean `llama-cpp`?",
        ),
        (
            "models/tiny.yaml",
            "kind: chat",
            "kind: chatt",
            "tiny.yaml:3: kind: reading value: unknown `chatt`|did you mean `chat`? allowed: chat, embedding",
        ),
        (
            "models/tiny.yaml",
            "contextSize: 4096",
            "contextSize: many",
            "tiny.yaml:10: master.serving.contextSize: reading serving parameter: must be of type integer, "
            'found `"many"`|tokens',
        ),
        (
            "models/tiny.yaml",
            "parallel: 2",
            "parallel: 65",
            "tiny.yaml:10: master.serving.parallel: reading serving parameter: must be at most 64, found `65`|slots",
        ),
        (
            "models/tiny.yaml",
            "parallel: 2",
            "paralel: 2",
            "tiny.yaml:10: master.serving.paralel: reading serving parameter: runtime `llama-cpp` "
            "does not know `paralel`|did",
        ),
        (
            "models/tiny.yaml",
            "contextSize: 4096",
            "contextSize: 40960",
            "tiny.yaml:10: master.serving.contextSize: reading context: the model has 32768, found 40960|",
        ),
        (
            "models/tiny.yaml",
            "image: llama-cpp",
            "image: llama_cpp",
            "tiny.yaml:7: master.image: reading image key: unknown `llama_cpp`|did you mean `llama-cpp`?",
        ),
        (
            "models/tiny.yaml",
            "id: tiny",
            "id: other",
            "tiny.yaml:2: id: reading id: it must be `tiny` like the file's place, found `other`|change `id`",
        ),
        (
            "models/tiny.yaml",
            "profiles: [dev]",
            "profiles: [dev, prod]",
            "tiny.yaml:4: profiles: reading profile: runtime `llama-cpp` is not for profile: `prod`|",
        ),
        (
            "models/acme--speech.yaml",
            "kind: transcription",
            "kind: chat",
            "acme--speech.yaml:3: kind: reading kind: runtime `parakeet` serves transcription, found `chat`|",
        ),
        (
            "models/tiny.yaml",
            "layers: 18",
            "layers: 0",
            "tiny.yaml:19: architecture.layers: reading value: must be greater than 0, found `0`|",
        ),
        (
            "templates/dedicated/tier.yaml",
            "runtimes: [llama-cpp, vllm,",
            "runtimes: [llama-cpp, vlm,",
            "templates/dedicated/tier.yaml:10: runtimes[1]: reading runtime: unknown `vlm`|did you mean `vllm`?",
        ),
        (
            "templates/dedicated/tier.yaml",
            "tenancy: endpoint",
            "tenancy: endpoints",
            "templates/dedicated/tier.yaml:4: tenancy: reading value: unknown `endpoints`|did you mean `endpoint`? "
            "allowed: customer, endpoint, pool",
        ),
        (
            "templates/dedicated/tier.yaml",
            "version: 1.0.0\n",
            "",
            "templates/dedicated/tier.yaml:1: version: reading field: it is required and missing|",
        ),
        (
            "applications/runtimes/vllm/runtime.yaml",
            "contextParameter: maxModelLen",
            "contextParameter: maxModelLength",
            "vllm/runtime.yaml:14: contextParameter: reading parameter: unknown "
            "`maxModelLength`|did you mean `maxModelLen`?",
        ),
        (
            "versions.yaml",
            "sha256:aaaa",
            "sha256:xxxx",
            "versions.yaml:3: images.llama-cpp: reading value: not of the right form|repository[:tag]@sha256:",
        ),
        (
            "site.yaml",
            "providers: [laptop]",
            "providers: [labtop]",
            "site.yaml:7: regions.local.providers[0]: reading provider: unknown `labtop`|did you mean `laptop`?",
        ),
        (
            "site.yaml",
            '"{endpoint}.{tenant}.example.com"',
            '"{endpoint}-{tenant}.example.com"',
            "site.yaml:4: public.hostname: reading hostname: two placeholders in one label|put a dot between them",
        ),
        (
            "site.yaml",
            '"{endpoint}.{tenant}.example.com"',
            '"{endpont}.example.com"',
            "site.yaml:4: public.hostname: reading placeholder: unknown `endpont`|did you mean `endpoint`?",
        ),
        (
            "site.yaml",
            '"{endpoint}.{tenant}.example.com"',
            '"{endpoint}.tenant}.example.com"',
            "site.yaml:4: public.hostname: reading hostname: a brace without its other half|placeholders: {endpoint}",
        ),
        (
            "site.yaml",
            "connector:",
            "conector:",
            "site.yaml:1: connector: reading field: it is required and missing|Argo CD connector Secret",
        ),
        (
            "site.yaml",
            "profile: dev",
            "profile: dev\nsovereign: true\nruntimes: [mistralrs, vllm]",
            "site.yaml:4: runtimes: reading runtimes: a sovereign site runs exactly one engine, found 2|the default",
        ),
        (
            "site.yaml",
            'cpu: "4"',
            "cpu: four",
            "site.yaml:13: providers[0].nodeTypes[0].cpu: reading value: not of the right form|Kubernetes",
        ),
        (
            "site.yaml",
            "name: cloud",
            "name: laptop",
            "site.yaml:9: providers: reading provider: named twice: `laptop`|rename",
        ),
    ],
)
def test_a_bad_file_is_refused_with_place_what_was_found_and_what_is_allowed(
    tmp_path: Path, file: str, old: str, new: str, told: str
) -> None:
    """Ledger: CAT-01."""
    findings = findings_after(tmp_path, file, old, new)
    message, hint = told.split("|")
    assert all(finding.hint for finding in findings)
    assert any(message in str(finding) and hint in (finding.hint or "") for finding in findings), [
        f"{finding}|{finding.hint}" for finding in findings
    ]


def test_all_findings_of_all_files_come_at_once(tmp_path: Path) -> None:
    root = copied_pack(tmp_path)
    (root / "models" / "tiny.yaml").write_text("a: yes\nb: [\n")
    (root / "models" / "notes.txt").write_text("not a model")
    (root / "templates" / "shared" / "tier.yaml").unlink()
    (root / "versions.yaml").write_text("charts: {}\n")
    with pytest.raises(RejectedError) as caught:
        load_copy(root)
    assert {finding.file for finding in caught.value.findings} == {
        "tiny.yaml",
        "templates/shared/tier.yaml",
        "versions.yaml",
    }


def test_tiers_whose_projects_could_be_confused_are_refused(tmp_path: Path) -> None:
    root = copied_pack(tmp_path)
    (root / "templates" / "shared").rename(root / "templates" / "not-dedicated")
    file = root / "templates" / "not-dedicated" / "tier.yaml"
    text = file.read_text().replace("name: shared", "name: not-dedicated")
    file.write_text(text.replace("tier: shared", "tier: not-dedicated"))
    with pytest.raises(RejectedError) as caught:
        load_copy(root)
    assert [finding.reason for finding in caught.value.findings] == ["AmbiguousName"]


def test_a_site_is_checked_against_the_catalog() -> None:
    catalog = small_catalog()
    assert check_site(small_site(), catalog) == ()
    (unknown,) = check_site(site_with(runtimes=("vlm",)), catalog)
    assert unknown.reason == "UnknownRuntime"
    kept = {"type": "container", "container": {"path": "/snapshots"}}
    (none,) = check_site(site_with(profile="prod", runtimes=("llama-cpp",), snapshots=kept), catalog)
    assert none.reason == "NoRuntime"
    assert {found.reason for found in check_site(site_with(profile="prod"), catalog)} == {"BackupsMissing"}
    (sovereign,) = check_site(site_with(sovereign=True), catalog)
    assert sovereign.reason == "NoRuntime"


def test_a_site_offers_what_its_profile_runtimes_and_retired_images_leave() -> None:
    catalog = small_catalog()
    assert list(offered_models(catalog, small_site())) == ["acme/speech", "big", "tiny"]
    assert list(offered_models(catalog, site_with(profile="prod"))) == ["acme/speech", "big"]
    assert list(offered_models(catalog, site_with(runtimes=("vllm",)))) == ["big"]
    assert list(offered_models(catalog, site_with(retired_images=("example.com/vllm",)))) == ["acme/speech", "tiny"]
    digest = "sha256:" + "b" * 64
    assert "big" not in offered_models(catalog, site_with(retired_images=(digest,)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=300) | st.sampled_from(list(PACK.rglob("*.yaml"))).map(Path.read_text), at=st.integers(0, 400)
)
def test_any_text_is_a_site_or_refused(tmp_path: Path, text: str, at: int) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text[:at] + text[at + 1 :], encoding="utf-8", errors="ignore")
    try:
        load_site(path)
    except RejectedError as error:
        assert error.findings
