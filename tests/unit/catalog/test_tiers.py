"""Options of a tier that exclude each other, control planes that are none, stacks that lack something."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from provisioner.catalog.checks import check_catalog
from provisioner.catalog.component import Component
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.tier import (
    ControlPlane,
    Isolation,
    NodeMode,
    NodePools,
    Routing,
    Scheduling,
    Storage,
    Tenancy,
    Tier,
)
from provisioner.catalog.tiers import check_component, check_tier
from provisioner.domain.finding import Finding

CATALOG = load_catalog()


def tier_with(name: str = "dedicated", **options: Any) -> Tier:
    return CATALOG.tiers[name].model_copy(update=options)


def found(tier: Tier, components: dict[str, Component] | None = None) -> list[Finding]:
    return list(check_tier(tier, components or CATALOG.components))


@pytest.mark.parametrize("name", sorted(CATALOG.tiers))
def test_shipped_tiers_are_sound(name: str) -> None:
    assert found(CATALOG.tiers[name]) == []


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("dedicated", {"routing": Routing.IMPORTED_GATEWAY}, "routing"),
        ("shared", {"routing": Routing.LISTENER_SET}, "routing"),
        ("shared", {"isolation": Isolation.KUBEVIRT}, "isolation"),
        ("shared", {"node_pools": NodePools.DYNAMIC}, "nodePools"),
        ("partitioned", {"node_pools": NodePools.DYNAMIC}, "nodePools"),
        ("dedicated", {"tenancy": Tenancy.CUSTOMER, "node_pools": NodePools.STATIC}, "nodePools"),
        ("isolated", {"tenancy": Tenancy.POOL}, "tenancy"),
        ("shared", {"signals": ("queue-depth", "gpu-memory")}, "signals"),
        ("multinode", {"node_mode": NodeMode.SHARED, "routing": Routing.IMPORTED_GATEWAY}, "multiNode"),
        ("partitioned", {"scheduling": Scheduling.DEVICE_PLUGIN, "stack": ()}, "accelerator.partition"),
        ("dedicated", {"example": {"tier": "shared"}}, "example.tier"),
    ],
)
def test_options_that_exclude_each_other_are_refused(name: str, options: dict[str, Any], field: str) -> None:
    [finding] = [finding for finding in found(tier_with(name, **options)) if finding.reason == "OptionsConflict"]
    assert finding.field == field
    assert finding.hint


@pytest.mark.parametrize("storage", [Storage.OBJECT_STORE, Storage.IMAGE])
def test_engine_that_fetches_for_itself_wants_where_to_write(storage: Storage) -> None:
    dedicated = tier_with(storage=storage)
    catalog = dataclasses.replace(CATALOG, tiers={"dedicated": dedicated})
    [(file, finding)] = check_catalog(catalog)
    assert (file, finding.reason) == ("templates/dedicated/tier.yaml", "OptionsConflict")
    assert finding.field == f"runtimes[{dedicated.runtimes.index('parakeet')}]"


@pytest.mark.parametrize(
    ("plane", "reasons"),
    [
        ({"replicas": 1, "backing_store": "sqlite"}, ["NotHighlyAvailable", "NotHighlyAvailable"]),
        ({"replicas": 1, "backing_store": "embedded-etcd"}, ["NotHighlyAvailable"]),
        ({"replicas": 2, "backing_store": "embedded-etcd"}, ["NotHighlyAvailable"]),
        ({"replicas": 3, "backing_store": "sqlite"}, ["NotHighlyAvailable"]),
        ({"replicas": 3, "backing_store": "embedded-etcd", "backups": None}, ["BackupsMissing"]),
        ({"replicas": 2, "backing_store": "external-database"}, []),
    ],
)
def test_production_wants_replicas_a_store_for_them_and_backups(plane: dict[str, Any], reasons: list[str]) -> None:
    """Ledger: TEN-15."""
    tier = tier_with()
    backups = tier.control_plane.prod.backups
    prod = ControlPlane.model_validate({"backups": backups, **plane})
    profiles = tier.control_plane.model_copy(update={"prod": prod})
    assert [finding.reason for finding in found(tier_with(control_plane=profiles))] == reasons


STACK = CATALOG.tiers["dedicated"].stack


@pytest.mark.parametrize(
    ("stack", "reason", "words"),
    [
        ((*STACK, "exmple"), "UnknownComponent", "`exmple`"),
        ((*STACK, "device-plugin"), "ComponentTwice", "`gpu-operator`"),
        ((*STACK, "keda"), "ComponentTwice", "`keda`"),
        ((*STACK, "dcgm-exporter"), "ComponentTwice", "`gpu-operator`"),
        (tuple(name for name in STACK if name != "keda"), "ComponentNeedMissing", "ScaledObject.keda.sh"),
        (tuple(name for name in STACK if name != "cilium"), "ComponentNeedMissing", "`cni`"),
        (("gpu-operator", *(name for name in STACK if name != "gpu-operator")), "ComponentNeedMissing", "before it"),
    ],
)
def test_stack_that_lacks_something_or_has_it_twice_is_refused(stack: tuple[str, ...], reason: str, words: str) -> None:
    [finding] = found(tier_with(stack=stack))
    assert finding.reason == reason
    assert words in finding.message


def test_tier_with_claims_may_have_no_device_plugin() -> None:
    partitioned = CATALOG.tiers["partitioned"]
    reasons = [
        finding.reason for finding in found(tier_with("partitioned", stack=(*partitioned.stack, "device-plugin")))
    ]
    assert set(reasons) == {"ComponentTwice"}


def test_cni_that_accepts_policies_and_ignores_them_is_named() -> None:
    """Ledger: TEN-09."""
    ignoring = CATALOG.components["cilium"].model_copy(update={"enforces_network_policy": False})
    [finding] = found(tier_with(), {**CATALOG.components, "cilium": ignoring})
    assert finding.reason == "NetworkPolicyNotEnforced"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chart": "kedda"}, "UnknownChart"),
        ({"excludes": ("kedda",)}, "UnknownComponent"),
        ({"needs": ("nothing",)}, "UnknownNeed"),
    ],
)
def test_names_of_a_component_are_known(change: dict[str, Any], reason: str) -> None:
    component = CATALOG.components["keda"].model_copy(update=change)
    components = {**CATALOG.components, "keda": component}
    [finding] = check_component(component, dataclasses.replace(CATALOG, components=components))
    assert finding.reason == reason
