"""Stand-ins for the template pack and the repository: trees that say what runs, and what was delivered of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provisioner.delivery.interface import Commit
from provisioner.domain.errors import ConflictError
from provisioner.domain.plan import EndpointPlan
from provisioner.platform.interface import Manifest


@dataclass
class StandInDelivery:
    """A `Delivery` in memory: the SHA says everything that went in."""

    effects: list[str]
    heads: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    trouble: Exception | None = None

    async def head(self, branch: str) -> str | None:
        return self.heads.get(branch)

    async def branches(self) -> list[str]:
        return sorted(self.heads)

    async def files(self, branch: str, commit: str) -> Mapping[str, bytes]:
        return self.commits[commit]

    async def push(self, commit: Commit) -> str:
        if self.trouble:
            raise self.trouble
        key = (commit.branch, tuple(sorted(commit.files.items())), commit.parent, commit.message, commit.at)
        sha = f"{hash(key) & (2**160 - 1):040x}"
        if self.heads.get(commit.branch) not in (commit.parent, sha):
            raise ConflictError("moved", reason="BranchMoved")
        if self.heads.get(commit.branch) != sha:
            self.effects.append(f"push {commit.branch}")
        self.heads[commit.branch], self.commits[sha] = sha, commit.files
        return sha

    async def delete(self, branch: str) -> None:
        if self.heads.pop(branch, None):
            self.effects.append(f"delete branch {branch}")

    def delivered(self, branch: str) -> Mapping[str, bytes]:
        """What Argo CD would find there now."""
        commit = self.heads.get(branch)
        return self.commits[commit] if commit else {}


class StandInPack:
    """A template pack whose trees say which workloads there are, their bounds, and the names of their replicas.

    `edition` is what its templates say of pods: another one is what another release of the product would bring."""

    def __init__(self, edition: str = "") -> None:
        self.edition = edition

    def instance(self, plan: EndpointPlan) -> Manifest:
        metadata = {"name": plan.placement.tenant_cluster, "namespace": f"p-{plan.placement.project}"}
        spec = {"templateRef": {"name": plan.placement.template}, "parameters": dict(plan.placement.parameters)}
        return {"metadata": metadata, "spec": spec}

    def customer_instance(self, tenant: str, tier: str, *, control_plane: str) -> Manifest:
        metadata = {"name": tenant, "namespace": f"p-{tenant}-{tier}"}
        return {"metadata": metadata, "spec": {"templateRef": {"name": f"tenantry-{tier}"}}}

    def tenant_tree(self, tenant: str, tier: str) -> Mapping[str, bytes]:
        return {f"tenants/{tenant}/namespace.inference.yaml": _text({"tier": tier})}

    def application(self, plan: EndpointPlan) -> Manifest:
        metadata = {"name": f"{plan.endpoint}-runtime", "namespace": f"p-{plan.placement.project}"}
        return {"metadata": metadata, "spec": {"destination": plan.placement.tenant_cluster}}

    def customer_route(self, plan: EndpointPlan) -> Manifest:
        spec = {"hostnames": [plan.address.hostname], "parentRefs": [{"name": "public"}]}
        labels = {"app.kubernetes.io/managed-by": "tenantry", "tenantry.io/endpoint": str(plan.endpoint)}
        return {"metadata": {"name": plan.endpoint, "namespace": "tenantry", "labels": labels}, "spec": spec}

    def runtime_tree(self, plan: EndpointPlan, *, beside: EndpointPlan | None = None) -> Mapping[str, bytes]:
        runtime = plan.runtime
        bounds = {"workload": plan.workload, "min": max(runtime.min_replicas, 1), "max": runtime.max_replicas}
        sets = max(made.runtime.max_replicas for made in (plan, beside or plan))
        hosts = [plan.replica_host(ordinal) for ordinal in range(runtime.max_replicas)]
        return {
            **self.workload_files(plan),
            f"{plan.delivery_path}/scaledobject.{plan.workload}.yaml": _text(bounds),
            f"{plan.delivery_path}/resourcequota.tenant-quota.yaml": _text({"sets": sets}),
            **{f"{plan.delivery_path}/httproute.{host}.yaml": _text({"host": host}) for host in hosts},
        }

    def workload_files(self, plan: EndpointPlan) -> Mapping[str, bytes]:
        pods = {
            "workload": plan.workload,
            "revision": plan.runtime.revision,
            "pods": [plan.runtime.model, self.edition],
        }
        return {f"{plan.delivery_path}/statefulset.{plan.workload}.yaml": _text(pods)}

    def project(self, tenant: str, tier: str) -> Manifest:
        return {"metadata": {"name": f"{tenant}-{tier}"}, "spec": {"quotas": {"project": {"nodeclaims": "4"}}}}


def objects_of(delivered: Mapping[str, bytes], kind: str) -> list[dict[str, Any]]:
    """The delivered objects of a kind, by name."""
    found = sorted((path, text) for path, text in delivered.items() if path.rpartition("/")[2].startswith(f"{kind}."))
    return [json.loads(text) for _, text in found]


def _text(value: object) -> bytes:
    return json.dumps(value).encode()
