"""Node claims on the Platform, nodes and devices in a tenant cluster: what capacity has joined. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from provisioner.platform.condition import Condition, cut, parse_conditions
from provisioner.platform.interface import Manifest

_CLAIM_STEPS = ("Scheduled", "Provisioned", "Joined")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStatus:
    """One NodeClaim: phase Pending, Available or Failed, and the first of its steps that is not done."""

    name: str
    phase: str
    pending: Condition | None
    message: str

    @property
    def is_available(self) -> bool:
        """Whether its node has joined."""
        return self.phase == "Available" and self.pending is None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node. `resources` are its allocatable extended resources."""

    name: str
    ready: bool
    resources: dict[str, int]


def parse_claims(manifests: Iterable[Manifest], *, tenant_cluster: str) -> tuple[ClaimStatus, ...]:
    """The NodeClaims of one tenant cluster, by name."""
    claims = (claim for claim in manifests if belongs_to(claim, tenant_cluster))
    return tuple(sorted((_claim(claim) for claim in claims), key=lambda claim: claim.name))


def belongs_to(manifest: Manifest, tenant_cluster: str) -> bool:
    """Whether a NodeClaim or NodeEnvironment is for this tenant cluster."""
    return (manifest.get("spec") or {}).get("vClusterRef") == tenant_cluster


def parse_node(manifest: Manifest) -> NodeStatus:
    """Read a Node."""
    status = manifest.get("status") or {}
    ready = parse_conditions(status).get("Ready")
    return NodeStatus(
        name=str(manifest["metadata"]["name"]),
        ready=ready is not None and ready.is_true,
        resources={
            name: int(amount)
            for name, amount in (status.get("allocatable") or {}).items()
            if "/" in name and str(amount).isascii() and str(amount).isdigit()
        },
    )


def count_devices(slices: Iterable[Manifest], *, driver: str, mig_profile: str | None) -> int:
    """Devices that a driver publishes for claims (DRA), of one MIG profile where it is named."""
    specs = [manifest.get("spec") or {} for manifest in slices]
    devices = [device for spec in specs if spec.get("driver") == driver for device in spec.get("devices") or ()]
    return sum(1 for device in devices if mig_profile is None or _mig_profile(device, driver) == mig_profile)


def _mig_profile(device: Manifest, driver: str) -> str | None:
    """An attribute without a domain is of the driver's own."""
    attributes = device.get("attributes") or {}
    found = attributes.get("profile") or attributes.get(f"{driver}/profile") or {}
    return found.get("string")


def _claim(manifest: Manifest) -> ClaimStatus:
    status = manifest.get("status") or {}
    conditions = parse_conditions(status)
    steps = (conditions.get(name, Condition(type=name)) for name in _CLAIM_STEPS)
    return ClaimStatus(
        name=str(manifest["metadata"]["name"]),
        phase=str(status.get("phase") or "Pending"),
        pending=next((step for step in steps if not step.is_true), None),
        message=cut(status.get("message")),
    )
