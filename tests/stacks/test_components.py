"""Each component alone, against Pulumi's own mocks: what it registers, in which order, with which options."""

from __future__ import annotations

import pulumi

from stacks.group import Group, GroupArgs
from stacks.platform.installation import Installation, InstallationArgs
from stacks.platform.secrets import MARKS
from stacks.published_tier import APPLICATIONS, GUARDRAILS, NODE_SUPPLY, PublishedTier, PublishedTierArgs
from tests.stacks.mocks import GROUP, Manifest, Monitor, manifest, register


async def test_node_supply_shares_providers_and_owns_profiles() -> None:
    manifests = (manifest("NodeProvider", "metal"), manifest("NodeProfile", "tenantry-dedicated"))
    monitor = await register_group(NODE_SUPPLY, *manifests)
    shared, own = monitor.requests["NodeProvider/metal"], monitor.requests["NodeProfile/tenantry-dedicated"]
    assert (shared.type, own.type) == (f"kubernetes:{GROUP}:NodeProviderPatch", f"kubernetes:{GROUP}:NodeProfile")
    assert shared.protect and shared.retainOnDelete
    assert not own.protect and not own.retainOnDelete
    assert monitor.inputs("NodeProvider/metal")["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}
    assert monitor.inputs("NodeProfile/tenantry-dedicated") == manifests[1]


async def test_applications_are_registered_as_rendered_below_their_component() -> None:
    manifests = (manifest("ArgoCDApplicationTemplate", "runtime-1-0-0"), manifest("StackTemplate", "serving-1-0-0"))
    monitor = await register_group(APPLICATIONS, *manifests)
    for made in manifests:
        name = f"{made['kind']}/{made['metadata']['name']}"
        assert monitor.inputs(name) == made
        assert monitor.requests[name].parent.endswith("tenantry:tier:Applications::dedicated")
        assert "pulumi:providers:kubernetes::eu" in monitor.requests[name].provider


async def test_template_is_protected_and_says_when_it_is_there() -> None:
    published: list[list[str]] = []

    def make(provider: pulumi.ProviderResource) -> None:
        template = manifest("VirtualClusterTemplate", "tenantry-dedicated")
        tier = PublishedTier("dedicated", PublishedTierArgs(manifests=(template,), provider=provider))
        tier.published.apply(published.append)

    monitor = await register(make)
    request = monitor.requests["VirtualClusterTemplate/tenantry-dedicated"]
    assert request.protect
    assert [alias.spec.noParent for alias in request.aliases] == [True]
    assert published == [["VirtualClusterTemplate/tenantry-dedicated-id"]]


async def test_guardrails_make_namespaces_before_what_stands_in_them() -> None:
    manifests = (
        manifest("ResourceQuota", "quota", api_version="v1", namespace="pool"),
        manifest("Namespace", "pool", api_version="v1"),
    )
    monitor = await register_group(GUARDRAILS, *manifests)
    quota, namespace = monitor.requests["ResourceQuota/pool/quota"], monitor.requests["Namespace/pool"]
    assert (quota.type, namespace.type) == ("kubernetes:core/v1:ResourceQuota", "kubernetes:core/v1:Namespace")
    assert namespace.protect
    assert [urn.rpartition("::")[2] for urn in quota.dependencies] == ["Namespace/pool"]


async def test_a_tier_publishes_its_template_after_everything_else() -> None:
    manifests = (
        manifest("VirtualClusterTemplate", "tenantry-dedicated"),
        manifest("NodeProfile", "tenantry-dedicated"),
        manifest("ArgoCDApplicationTemplate", "runtime-1-0-0"),
        manifest("ConfigMap", "extra", api_version="v1", namespace="tenantry"),
    )
    monitor = await register(
        lambda provider: PublishedTier("dedicated", PublishedTierArgs(manifests=manifests, provider=provider))
    )
    template = monitor.requests["VirtualClusterTemplate/tenantry-dedicated"]
    before = {urn.rpartition("::")[2] for urn in template.dependencies}
    assert before >= {
        "NodeProfile/tenantry-dedicated",
        "ArgoCDApplicationTemplate/runtime-1-0-0",
        "ConfigMap/tenantry/extra",
    }
    assert monitor.components[0] == "PublishedTier"
    assert set(monitor.components[1:]) == {"Guardrails", "NodeSupply", "Applications", "TenantTemplate"}


async def test_a_tier_without_nodes_of_its_own_has_no_node_supply() -> None:
    manifests = (manifest("VirtualClusterTemplate", "tenantry-shared"),)
    monitor = await register(
        lambda provider: PublishedTier("shared", PublishedTierArgs(manifests=manifests, provider=provider))
    )
    assert monitor.components == ["PublishedTier", "TenantTemplate"]


async def test_the_provider_is_known_by_its_context_so_that_new_credentials_replace_nothing() -> None:
    monitor = await register(lambda provider: provider)
    assert monitor.inputs("eu")["clusterIdentifier"] == monitor.inputs("eu")["context"] == "eu"
    assert monitor.inputs("eu")["enableSecretMutable"] == "true"


async def test_an_installation_fills_secrets_in_and_says_when_all_of_it_is_there() -> None:
    made: list[list[str]] = []
    secret = {
        **manifest("Secret", "keys", api_version="v1", namespace="tenantry"),
        "stringData": {"a": MARKS["operator_key"]},
    }
    groups = {"namespaces": [manifest("Namespace", "tenantry", api_version="v1")], "connection": [secret]}
    secrets = {"operator_key": pulumi.Output.secret("s3cr3t")}

    def make(provider: pulumi.ProviderResource) -> None:
        args = InstallationArgs(groups=groups, secrets=secrets, provider=provider)
        Installation("eu-1", args).made.apply(made.append)

    monitor = await register(make)
    request = monitor.requests["eu-1/Secret/tenantry/keys"]
    assert [urn.rpartition("::")[2] for urn in request.dependencies] == ["eu-1/Namespace/tenantry"]
    held = request.object["stringData"]["a"]
    assert (held["value"], len(held)) == ("s3cr3t", 2)  # the other is the mark of a secret
    assert made == [["eu-1/Namespace/tenantry-id", "eu-1/Secret/tenantry/keys-id"]]
    assert monitor.components == ["Installation", "Namespaces", "Connection"]


async def register_group(part: str, *manifests: Manifest) -> Monitor:
    """Register one part of a tier alone."""
    return await register(
        lambda provider: Group("dedicated", GroupArgs(part=f"tier:{part}", manifests=manifests, provider=provider))
    )
