"""The kubeconfig of a server's clusters."""

from __future__ import annotations

import stat
from pathlib import Path

import yaml

from provisioner.embedded.apiserver.kubeconfig import write_kubeconfig


def test_every_cluster_has_a_context_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:8401", [("acme", "ep-2"), ("acme", "ep-1")])
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "control-plane"
    servers = {entry["name"]: entry["cluster"]["server"] for entry in config["clusters"]}
    assert servers == {
        "control-plane": "http://127.0.0.1:8401",
        "acme/ep-1": "http://127.0.0.1:8401/kubernetes/project/acme/virtualcluster/ep-1",
        "acme/ep-2": "http://127.0.0.1:8401/kubernetes/project/acme/virtualcluster/ep-2",
    }
    assert {entry["name"] for entry in config["contexts"]} == set(servers)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_kubeconfig(path, "http://127.0.0.1:8401", [])
    assert [entry["name"] for entry in yaml.safe_load(path.read_text())["contexts"]] == ["control-plane"]
    assert [file.name for file in path.parent.iterdir()] == ["kubeconfig"]
