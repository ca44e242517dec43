"""`tenantry plan`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.pack import example_site
from provisioner.cli.main import main

REQUEST = """\
name: chat
tenant: acme
model: Qwen2-VL-2B-Instruct
region: eu-central-1
tier: dedicated
scaling: {minReplicas: 1, maxReplicas: 2}
"""
KEYS = {"rule", "severity", "path", "file", "line", "object", "message", "fix"}


@pytest.fixture
def request_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good request, where no installation is set up."""
    monkeypatch.delenv("TENANTRY_SITE", raising=False)
    monkeypatch.setenv("TENANTRY_STATE", str(tmp_path / "state"))
    path = tmp_path / "request.yaml"
    path.write_text(REQUEST)
    return path


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["plan", "-o", "json", *arguments])
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"findings", "plan"}
    assert all(set(finding) == KEYS for finding in answer["findings"])
    return code, answer


def test_without_an_installation_the_example_site_is_used_and_said(
    request_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-f", str(request_file)]) == 0
    assert "example site" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["plan", "-f"], ["tier", "show", "dedicated"]])
def test_site_of_an_installation_is_told_where_none_is_named(
    command: list[str], request_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [*command, str(request_file)] if command[0] == "plan" else command
    site = request_file.parent / "state" / "site.yaml"
    site.parent.mkdir()
    site.write_text(example_site().read_text())
    assert main([*line, "-o", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)
    assert told.err == f"no site is named: taking that of the installation here, {site}; TENANTRY_SITE names another\n"
    monkeypatch.setenv("TENANTRY_SITE", str(example_site()))
    assert main([*line, "-o", "json"]) == 0
    assert capsys.readouterr().err == ""


def test_the_plan_says_what_would_be_made(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ledger: TEN-13."""
    code, answer = planned(capsys, "-f", str(request_file))
    plan = answer["plan"]
    assert (code, answer["findings"]) == (0, [])
    assert plan["objects"]["StatefulSet"] == 1
    assert plan["rollout"].keys() == {"mode", "gapSeconds", "reason"}
    assert plan["capacity"]["gpuMemory"]["longestContext"] == 32768


def test_a_finding_points_into_the_request(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request_file.write_text(f"{REQUEST}serving:\n  tensorParallelSize: 5\n")
    code, answer = planned(capsys, "-f", str(request_file))
    [finding] = answer["findings"]
    assert code == 1
    assert answer["plan"] is None
    assert (finding["rule"], finding["line"]) == ("heads-not-divisible", 8)
    assert finding["file"] == str(request_file)
    assert finding["fix"]


@pytest.mark.parametrize("content", [b"", b"name: [\n", b"\xff\xfe\x00", b"[" * 5000, b"a" * 300_000, b"- 1\n", None])
def test_a_file_that_is_no_request_is_a_finding(
    content: bytes | None, request_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_file.unlink() if content is None else request_file.write_bytes(content)
    code, answer = planned(capsys, "-f", str(request_file))
    assert code == 1
    assert answer["findings"]
    assert all(finding["line"] and finding["file"] and finding["fix"] for finding in answer["findings"])


def test_manifests_are_written_whole_or_not_at_all(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "manifests"
    assert main(["plan", "-f", str(request_file), "--out", str(out)]) == 0
    written = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.yaml")}
    assert {name.split("/")[0] for name in written} == {"platform", "endpoints"}
    assert out.stat().st_mode == out.parent.stat().st_mode
    for folder, rule in ((out, "folder-not-empty"), (request_file, "folder-not-written")):
        capsys.readouterr()
        code, answer = planned(capsys, "-f", str(request_file), "--out", str(folder))
        assert (code, [finding["rule"] for finding in answer["findings"]]) == (1, [rule])
        assert answer["plan"]["name"] == "chat"
    assert request_file.read_text() == REQUEST
    assert {path.name for path in out.parent.iterdir()} == {"manifests"}
    again = tmp_path / "again"
    assert main(["plan", "-f", str(request_file), "--out", str(again)]) == 0
    assert written == {path.relative_to(again).as_posix(): path.read_bytes() for path in again.rglob("*.yaml")}


def test_the_pool_that_serves_an_endpoint_is_written_beside_it(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_file.write_text(REQUEST.replace("dedicated", "shared"))
    out = tmp_path / "out"
    assert main(["plan", "-f", str(request_file), "--out", str(out)]) == 0
    told, written = capsys.readouterr(), len([*(out / "pool").rglob("*.yaml")])
    assert "its objects are not counted below" in told.out
    assert f"wrote 1 manifest below {out}, and below {out / 'pool'} the {written} of its pool" in told.err
    assert {path.name for path in out.iterdir()} == {"platform", "pool"}
    assert [path for path in out.rglob("*.statefulset.*") if path.is_relative_to(out / "pool")]
    assert main(["lint", str(out)]) == 0


def test_a_pool_is_counted_as_it_is_written(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_file.write_text(REQUEST.replace("dedicated", "shared").replace("acme", "pool"))
    out = tmp_path / "out"
    code, answer = planned(capsys, "-f", str(request_file), "--out", str(out))
    objects = answer["plan"]["objects"]
    assert (code, objects["StatefulSet"]) == (0, 1)
    assert sum(objects.values()) == len([*out.rglob("*.yaml")])
    assert {path.name for path in out.iterdir()} == {"platform", "endpoints"}


def test_people_read_what_is_really_claimed(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request_file.write_text(REQUEST.replace("dedicated", "partitioned"))
    assert main(["plan", "-f", str(request_file)]) == 0
    told = capsys.readouterr().out
    assert "1 x device of class tenantry-partitioned (MIG 3g.40gb) per replica, 2 in total" in told
    assert "nvidia.com/gpu" not in told


def test_what_the_site_lacks_is_told_beside_the_plan(
    request_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = (Path(__file__).parents[3] / "provisioner" / "catalog" / "example-site.yaml").read_text()
    site = tmp_path / "site.yaml"
    site.write_text("".join(line for line in shipped.splitlines(True) if not line.startswith("metricsUrl:")))
    monkeypatch.setenv("TENANTRY_SITE", str(site))
    request_file.write_text(f"{REQUEST}serving: {{autoscalingSignal: gateway-queue}}\n")
    out = tmp_path / "out"
    code, answer = planned(capsys, "-f", str(request_file), "--out", str(out))
    [finding] = answer["findings"]
    assert (code, finding["rule"], finding["line"]) == (1, "site-incomplete", 7)
    assert answer["plan"]["placement"]["project"] == "acme-dedicated"
    assert not out.exists()


def test_nothing_is_written_for_a_refused_request(request_file: Path, tmp_path: Path) -> None:
    request_file.write_text(REQUEST.replace("acme", "pool"))
    assert main(["plan", "-f", str(request_file), "--out", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


def test_a_providers_own_folder_extends_and_replaces_ours(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    (own / "models").mkdir(parents=True)
    shipped = Path(__file__).parents[3] / "provisioner" / "catalog" / "models" / "Qwen2-VL-2B-Instruct.yaml"
    text = shipped.read_text().replace("id: Qwen2-VL-2B-Instruct", "id: acme/private")
    (own / "models" / "acme--private.yaml").write_text(text)
    digest = f"registry.example.com/vllm@sha256:{'1' * 64}"
    (own / "versions.yaml").write_text(f"charts: {{}}\nimages: {{vllm: {digest}}}\n")
    request_file.write_text(REQUEST.replace("model: Qwen2-VL-2B-Instruct", "model: acme/private"))
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(own))
    assert (code, answer["plan"]["runtime"]["image"]) == (0, digest)
    (own / "versions.yaml").unlink()
    (own / "models" / "acme--private.yaml").write_text(text.replace("image: vllm", f"image: {digest}"))
    assert planned(capsys, "-f", str(request_file), "--catalog", str(own))[1]["plan"]["runtime"]["image"] == digest
    (own / "models" / "acme--private.yaml").write_text("id: acme/private\n")
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(own))
    assert code == 1
    assert {finding["file"] for finding in answer["findings"]} == {"models/acme--private.yaml"}


def test_what_the_policies_would_refuse_is_an_error_with_object_and_fix(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "applications/runtimes/_shared/replica/service.yaml.j2"
    part = tmp_path / "own" / name
    part.parent.mkdir(parents=True)
    shipped = (Path(__file__).parents[3] / name).read_text()
    part.write_text(shipped.replace("spec:", "spec:\n  type: LoadBalancer", 1))
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(tmp_path / "own"))
    assert code == 1
    assert answer["plan"]["objects"]["Service"] >= 2
    for finding in answer["findings"]:
        assert (finding["rule"], finding["path"], finding["file"]) == ("policy-service-exposure", "spec.type", "")
        assert finding["object"].startswith("Service inference/")
        assert finding["fix"]


def test_a_template_of_a_providers_own_is_rendered(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "own" / "templates" / "_parts" / "customer-route.yaml.j2"
    part.parent.mkdir(parents=True)
    part.write_text(
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "{{ endpoint }}"\n'
        'data:\n  tenant: "{{ tenant }}"\n  hostname: "{{ hostname }}"\n'
    )
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(tmp_path / "own"))
    assert code == 0
    assert answer["plan"]["objects"]["ConfigMap"] >= 1
    part.write_text("{{ nobody }}\n")
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(tmp_path / "own"))
    [finding] = answer["findings"]
    assert (code, answer["plan"]["objects"], finding["line"]) == (1, {}, 1)
    assert finding["file"] == "templates/_parts/customer-route.yaml.j2"


def test_templates_of_ones_own_are_laid_over_a_runtime_of_ours(
    request_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "own" / "applications" / "runtimes" / "vllm" / "workload" / "debug.yaml.j2"
    part.parent.mkdir(parents=True)
    part.write_text(
        'apiVersion: v1\nkind: Pod\nmetadata:\n  name: "{{ workload }}"\n  namespace: inference\n'
        "spec:\n  hostNetwork: true\n  containers: []\n"
    )
    code, answer = planned(capsys, "-f", str(request_file), "--catalog", str(tmp_path / "own"))
    assert (code, answer["plan"]["objects"]["Pod"]) == (1, 1)
    found = {(finding["rule"], finding["path"]) for finding in answer["findings"]}
    assert ("policy-host-access", "spec") in found
    assert {finding["object"].split("/")[0] for finding in answer["findings"]} == {"Pod inference"}


def test_regions_and_serving_are_shown(request_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tier", "show", "dedicated", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["regions"] == ["eu-central-1"]
    assert main(["model", "show", "MiniMax-M2.5", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["master"]["serving"]["tensorParallelSize"] == 8


@pytest.mark.parametrize("command", [("lint",), ("plan", "-f")], ids=" ".join)
def test_names_that_steer_a_terminal_are_printed_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    file = tmp_path / "a\x1b[2J\nok\x07\u202e.yaml"
    file.write_text('{apiVersion: v1, kind: Pod, metadata: {name: "b\\e[31m"}, "nope\\e\\a\\u202E": 1}\n')
    assert main([*command, str(file)]) == 1
    told = "".join(capsys.readouterr())
    assert not set(told) & set("\x1b\x07\u202e")
    assert "\\x1b[2J\\nok\\x07\\u202e.yaml" in told
