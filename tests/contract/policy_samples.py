"""The samples that lie beside each admission policy, and the world that they are asked in.

`allowed/` and `denied/` hold one manifest a file, to be created; `<name>.update.yaml` and
`<name>.ephemeralcontainers.yaml` hold what stands and what it is to become, `<name>.delete.yaml` what goes. A denied
sample says `# expects: ` and how the message begins.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from provisioner.admission.policy import PARAMETERS, Policy, load_policies
from provisioner.catalog.pack import pack_root
from provisioner.domain.finding import Finding

ROOT = pack_root() / "policies" / "admission"
SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "tenantry-policy", "namespace": "tenantry-policy"},
    "data": {
        "registries": "registry.example.com\n\n  ghcr.io/acme/models/\n",
        "domain": "acme.tenants.example.com",
        "tenant": "acme",
        "runtimeClass": "vnode",
    },
}


def _default_deny(namespace: str, **spec: Any) -> dict[str, Any]:
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    metadata = {"name": "default-deny", "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": closed | spec}


def _quota(namespace: str, **hard: str) -> dict[str, Any]:
    metadata = {"name": "tenant-quota", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


WORLD = (
    _default_deny("inference"),
    _default_deny("kube-system-2"),
    _default_deny("open", policyTypes=["Ingress"]),
    _quota("inference", **{"pods": "1000", "requests.nvidia.com/gpu": "1000"}),
    _quota("kube-system-2", **{"pods": "1000", "requests.nvidia.com/gpu": "1000"}),
    _quota("open", pods="1000"),
)
"""What stands in the namespaces: one is closed and bounded, one is neither, one has both but weak."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: what is asked for, and what its policy is to say."""

    policy: str
    path: Path
    operation: str
    obj: Mapping[str, Any]
    old: Mapping[str, Any] | None
    expects: str | None

    @property
    def name(self) -> str:
        """`<policy>/<allowed or denied>/<file>`."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def verb(self) -> str:
        """`create`, or what the file's name says."""
        return self.path.suffixes[0][1:] if len(self.path.suffixes) > 1 else "create"


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Every sample of every policy."""
    return tuple(_sample(path) for path in sorted(ROOT.glob("*/*/*.yaml")))


@functools.cache
def policies() -> tuple[Policy, ...]:
    """Every policy of the pack."""
    return load_policies(ROOT)


def denials(policy: Policy, sample: Sample) -> tuple[Finding, ...]:
    """What a policy says to a sample, its parameter being what the world holds."""
    params: Mapping[str, Any] | None = SETTINGS
    if policy.param_kind in ("NetworkPolicy", "ResourceQuota"):
        wanted = (policy.param_kind, PARAMETERS[policy.param_kind], sample.obj["metadata"].get("namespace"))
        there = {(o["kind"], o["metadata"]["name"], o["metadata"]["namespace"]): o for o in WORLD}
        params = there.get(wanted)
    return policy.denials(sample.obj, params=params, operation=sample.operation, old=sample.old)


def _sample(path: Path) -> Sample:
    text = path.read_text()
    documents = list(yaml.safe_load_all(text))
    expects = re.search(r"^# expects: (.+)$", text, re.MULTILINE)
    verb = path.suffixes[0] if len(path.suffixes) > 1 else ""
    return Sample(
        policy=path.parts[-3],
        path=path,
        operation={"": "CREATE", ".delete": "DELETE"}.get(verb, "UPDATE"),
        obj=documents[-1],
        old=documents[0] if len(documents) > 1 else None,
        expects=expects[1] if expects else None,
    )
