"""Where weights lie, who fetches them and when: every kind of storage of a tier."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provisioner.catalog.site import StorageSettings
from provisioner.domain.errors import RejectedError
from tests.contract.runtimes import Case, changed, full_site, optional, shipped
from tests.unit.rendering.examples import catalog

IN_POD, BY_JOB, READ_ONLY = {"pvc", "nvme"}, {"shared-filesystem"}, {"object-store", "image"}
KINDS = sorted(IN_POD | BY_JOB | READ_ONLY)
RUNTIMES = ["mistralrs", "vllm"]


def mounts(case: Case, role: str = "server") -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in case.pods[role]["spec"]["containers"][0]["volumeMounts"]}


def volume(case: Case, role: str = "server") -> dict[str, Any]:
    found = [entry for entry in case.pods[role]["spec"]["volumes"] if entry["name"] == "models"]
    return dict(found[0]) if found else {}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("storage", KINDS)
def test_weights_are_there_before_the_server_starts(storage: str, runtime: str) -> None:
    """Ledger: LIF-14."""
    case = optional(storage, runtime)
    path = next(text for text in case.server["args"] if text.startswith("/models/"))
    first = case.pods["server"]["spec"].get("initContainers", [])
    assert len(first) == int(storage in IN_POD)
    assert ("warm-up" in case.pods) is (storage not in IN_POD)
    [step] = first or case.pods["warm-up"]["spec"]["containers"]
    assert path in step["args"]
    assert step["image"] == case.server["image"]
    fetch = catalog().runtimes[runtime].fetch
    assert fetch is not None
    assert (tuple(step["command"]) == fetch.command) is (storage not in READ_ONLY)
    if "warm-up" in case.pods:
        [job] = case.of_kind("Job")
        assert job["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] == "0"
        assert case.workload["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] == "1"
        assert "ttlSecondsAfterFinished" not in job["spec"]  # Argo CD would make it anew
        assert not any(key.startswith("nvidia.com/") for key in step["resources"]["limits"])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("storage", KINDS)
def test_server_asks_no_hub_and_sees_no_token(storage: str, runtime: str) -> None:
    case = optional(storage, runtime)
    names = {variable["name"]: variable.get("value") for variable in case.server["env"]}
    assert names["HF_HUB_OFFLINE"] == "1"
    assert "HF_TOKEN" not in names
    holders = [
        container["name"]
        for template in case.pods.values()
        for container in [*template["spec"]["containers"], *template["spec"].get("initContainers", [])]
        if any(variable["name"] == "HF_TOKEN" for variable in container["env"])
    ]
    assert holders == [] if storage in READ_ONLY else len(holders) == 1


def test_volume_per_replica_stays_while_it_sleeps_and_goes_with_its_revision() -> None:
    spec = optional("pvc").workload["spec"]
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "block"
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Retain"}


def test_disk_of_the_node_comes_and_goes_with_the_pod() -> None:
    case = optional("nvme")
    assert "volumeClaimTemplates" not in case.workload["spec"]
    template = volume(case)["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert template["storageClassName"] == "local-nvme"
    assert template["resources"]["requests"]["storage"] == "7Gi"


def test_one_file_system_serves_all_replicas_and_later_revisions() -> None:
    case = optional("shared-filesystem")
    [claim] = case.of_kind("PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["spec"]["storageClassName"] == "shared-files"
    name = claim["metadata"]["name"]
    assert (
        volume(case)["persistentVolumeClaim"] == volume(case, "warm-up")["persistentVolumeClaim"] == {"claimName": name}
    )
    later = changed("dedicated", request={"serving": {"maxModelLen": 2048}}, storage="shared-filesystem")
    assert later.plan.workload != case.plan.workload
    assert [found["metadata"]["name"] for found in later.of_kind("PersistentVolumeClaim")] == [name]
    other = changed("dedicated", "mistralrs", storage="shared-filesystem")
    assert [found["metadata"]["name"] for found in other.of_kind("PersistentVolumeClaim")] != [name]


def test_bucket_is_mounted_for_reading_through_the_sites_driver() -> None:
    case = optional("object-store")
    [source], [claim] = case.of_kind("PersistentVolume"), case.of_kind("PersistentVolumeClaim")
    store = full_site().storage.object_store
    assert store is not None
    assert source["spec"]["csi"]["driver"] == store.driver
    assert source["spec"]["csi"]["readOnly"] is True
    assert source["spec"]["csi"]["volumeHandle"] == f"model-weights-{claim['metadata']['name']}"
    assert source["spec"]["mountOptions"] == list(store.mount_options)
    assert source["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert claim["spec"]["volumeName"] == source["metadata"]["name"]
    assert source["spec"]["claimRef"] == {"name": claim["metadata"]["name"], "namespace": "inference"}
    assert claim["spec"]["storageClassName"] == source["spec"]["storageClassName"] == ""
    [mount] = [entry for entry in case.server["volumeMounts"] if entry["mountPath"] == "/models"]
    assert mount["readOnly"] is True


def test_images_are_pulled_by_the_sites_secret_where_it_names_one() -> None:
    [named] = optional("object-store").of_kind("ServiceAccount")
    assert named["imagePullSecrets"] == [{"name": "image-registry"}]
    site = full_site().model_copy(update={"pull_secret": None})
    [named] = changed("dedicated", site=site).of_kind("ServiceAccount")
    assert "imagePullSecrets" not in named


def test_weights_in_the_image_need_no_volume() -> None:
    case = optional("image")
    assert volume(case) == volume(case, "warm-up") == {}
    assert set(mounts(case)) == {"/tmp", "/dev/shm"}
    assert case.of_kind("PersistentVolumeClaim") == []


def test_start_is_given_time_by_the_bytes_that_it_loads() -> None:
    small, large = optional("pvc"), changed("multinode", request={"model": "MiniMax-M2.5", "serving": {"gpus": 8}})
    seconds = [
        case.server["startupProbe"]["failureThreshold"] * case.server["startupProbe"]["periodSeconds"]
        for case in (small, large)
    ]
    assert seconds == [650, 2910]


def test_weights_come_from_the_sites_own_hub_where_it_has_one() -> None:
    [weights] = optional("pvc").pods["server"]["spec"]["initContainers"]
    assert {"name": "HF_ENDPOINT", "value": "https://models.example.com"} in weights["env"]
    [public] = shipped("dedicated", "vllm").pods["server"]["spec"]["initContainers"]
    assert "HF_ENDPOINT" not in {variable["name"] for variable in public["env"]}


def test_engine_that_fetches_for_itself_keeps_what_it_fetched() -> None:
    """Ledger: RUN-02."""
    case = shipped("dedicated", "parakeet")
    environment = {variable["name"]: variable for variable in case.server["env"]}
    assert environment["NIM_CACHE_PATH"]["value"] == "/models"
    assert environment["NIM_TAGS_SELECTOR"]["value"] == "type=multi"
    assert environment["NGC_API_KEY"]["valueFrom"]["secretKeyRef"]["optional"] is True
    assert "initContainers" not in case.pods["server"]["spec"]
    assert case.plan.runtime.kind == "transcription"


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A rendered command with stand-ins for the hub's programs in the front of PATH."""
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_vllms_weights_are_fetched_once_and_the_server_starts_again_without_the_hub(tmp_path: Path) -> None:
    fetch = catalog().runtimes["vllm"].fetch
    assert fetch is not None
    program(tmp_path, "hf", f'echo "$@" >> {tmp_path}/asked; mkdir -p "$6"; touch "$6/weights"')
    items = ["acme/model", "v1", str(tmp_path / "model"), "acme/adapter", "v2", str(tmp_path / "adapter")]
    for _ in range(2):
        done = run([*fetch.command, *items], tmp_path)
        assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        f"download acme/model --revision v1 --local-dir {tmp_path / 'model'}",
        f"download acme/adapter --revision v2 --local-dir {tmp_path / 'adapter'}",
    ]
    program(tmp_path, "hf", "exit 1")
    assert run([*fetch.command, "acme/other", "v1", str(tmp_path / "other")], tmp_path).returncode != 0
    assert not (tmp_path / "other" / ".complete").exists()


def test_file_with_another_digest_than_its_pin_is_no_weights(tmp_path: Path) -> None:
    fetch = catalog().runtimes["mistralrs"].fetch
    assert fetch is not None
    program(tmp_path, "curl", f'echo "$@" >> {tmp_path}/asked; cat >> {tmp_path}/told; printf weights > model.gguf')
    pin = hashlib.sha256(b"weights").hexdigest()
    good = [*fetch.command, "acme/model", pin, str(tmp_path / "good"), "model.gguf"]
    for _ in range(2):
        done = run(good, tmp_path, HF_TOKEN="secret", HF_ENDPOINT="https://models.example.com")
        assert done.returncode == 0, done.stderr
    [asked] = (tmp_path / "asked").read_text().splitlines()
    assert asked.endswith("https://models.example.com/acme/model/resolve/main/model.gguf")
    assert "secret" not in asked
    assert (tmp_path / "told").read_text() == 'header = "Authorization: Bearer secret"\n'
    wrong = [*fetch.command, "acme/model", "0" * 64, str(tmp_path / "wrong"), "model.gguf"]
    assert run(wrong, tmp_path).returncode != 0
    assert list((tmp_path / "wrong").iterdir()) == []  # the next try begins anew


def test_bucket_without_the_weights_is_told_before_any_server_starts(tmp_path: Path) -> None:
    [step] = optional("object-store").pods["warm-up"]["spec"]["containers"]
    assert run([*step["command"], str(tmp_path / "nothing")], tmp_path).returncode != 0
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "part").write_bytes(b"0" * 1000)
    assert run([*step["command"], str(tmp_path / "weights")], tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("tier", "options", "missing"),
    [
        ("dedicated", {"storage": "object-store"}, "storage.objectStore"),
        ("dedicated", {"storage": "shared-filesystem"}, "storage.sharedClass"),
        ("dedicated", {"storage": "nvme"}, "storage.nvmeClass"),
        ("dedicated", {"signals": ("gateway-queue",)}, "metricsUrl"),
        ("shared", {"routing": "ingress"}, "gateway.ingress"),
    ],
)
def test_what_the_site_does_not_name_is_told_and_never_left_out(
    tier: str, options: dict[str, Any], missing: str
) -> None:
    bare = full_site().model_copy(
        update={
            "gateway": full_site().gateway.model_copy(update={"ingress": None}),
            "metrics_url": None,
            "storage": StorageSettings(),
        }
    )
    with pytest.raises(RejectedError) as refused:
        changed(tier, site=bare, **options)
    assert refused.value.reason == "SiteIncomplete"
    assert missing in refused.value.message
    assert missing in str(refused.value.hint)
