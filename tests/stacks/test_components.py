"""Each component alone, against Pulumi's own mocks: what it registers, in which order, with which options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.rpc import deserialize_properties
from pulumi.runtime.stack import wait_for_rpcs

from stacks.components.applications import Applications, ApplicationsArgs
from stacks.components.guardrails import Guardrails, GuardrailsArgs
from stacks.components.node_supply import NodeSupply, NodeSupplyArgs
from stacks.components.published_tier import PublishedTier, PublishedTierArgs
from stacks.components.tenant_template import TenantTemplate, TenantTemplateArgs
from stacks.objects import kubernetes_provider

Manifest = dict[str, Any]
GROUP = "management.loft.sh/v1"


class NoCalls(Mocks):
    """What Pulumi wants to be given; the monitor below asks it nothing."""

    def call(self, args: MockCallArgs) -> tuple[dict[Any, Any], None]:
        raise AssertionError(args.token)

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        raise AssertionError(args.name)


class Monitor(MockMonitor):
    """Keeps whole requests: Pulumi's own monitor shows mocks no options, and opens event loops that nobody closes."""

    def __init__(self) -> None:
        super().__init__(NoCalls())
        self.requests: dict[str, resource_pb2.RegisterResourceRequest] = {}
        self.components: list[str] = []

    def RegisterResource(self, request: Any) -> resource_pb2.RegisterResourceResponse:
        """Answer that the resource is there."""
        if request.custom:
            self.requests[request.name] = request
        elif request.type != "pulumi:pulumi:Stack":
            self.components.append(request.type.rpartition(":")[2])
        urn = self.make_urn(request.parent, request.type, request.name)
        return resource_pb2.RegisterResourceResponse(urn=urn, id=f"{request.name}-id", object=request.object)

    def inputs(self, name: str) -> dict[str, Any]:
        """What a resource was asked to be."""
        inputs: dict[str, Any] = deserialize_properties(self.requests[name].object)
        return inputs


async def register(make: Callable[[pulumi.ProviderResource], object]) -> Monitor:
    """Make a provider and what is to be tested, and wait until everything is registered."""
    monitor = Monitor()
    pulumi.runtime.set_mocks(monitor.mocks, project="tenantry", stack="test", monitor=monitor)
    make(kubernetes_provider("eu", pulumi.Output.secret("kubeconfig")))
    await wait_for_rpcs()
    return monitor


def manifest(kind: str, name: str, *, api_version: str = GROUP, namespace: str | None = None) -> Manifest:
    """A small object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"of": name}}


async def test_node_supply_shares_providers_and_owns_profiles() -> None:
    manifests = (manifest("NodeProvider", "metal"), manifest("NodeProfile", "tenantry-dedicated"))
    monitor = await register(
        lambda provider: NodeSupply("dedicated", NodeSupplyArgs(manifests=manifests, provider=provider))
    )
    shared, own = monitor.requests["NodeProvider/metal"], monitor.requests["NodeProfile/tenantry-dedicated"]
    assert (shared.type, own.type) == (f"kubernetes:{GROUP}:NodeProviderPatch", f"kubernetes:{GROUP}:NodeProfile")
    assert shared.protect and shared.retainOnDelete
    assert not own.protect and not own.retainOnDelete
    assert monitor.inputs("NodeProvider/metal")["metadata"]["annotations"] == {"pulumi.com/patchForce": "true"}
    assert monitor.inputs("NodeProfile/tenantry-dedicated") == manifests[1]


async def test_applications_are_registered_as_rendered_below_their_component() -> None:
    manifests = (manifest("ArgoCDApplicationTemplate", "runtime-1-0-0"), manifest("StackTemplate", "serving-1-0-0"))
    monitor = await register(
        lambda provider: Applications("dedicated", ApplicationsArgs(manifests=manifests, provider=provider))
    )
    for made in manifests:
        name = f"{made['kind']}/{made['metadata']['name']}"
        assert monitor.inputs(name) == made
        assert monitor.requests[name].parent.endswith("tenantry:tier:Applications::dedicated")
        assert "pulumi:providers:kubernetes::eu" in monitor.requests[name].provider


async def test_template_is_protected_and_says_when_it_is_there() -> None:
    published: list[list[str]] = []

    def make(provider: pulumi.ProviderResource) -> TenantTemplate:
        args = TenantTemplateArgs(
            manifests=(manifest("VirtualClusterTemplate", "tenantry-dedicated"),), provider=provider, after=()
        )
        component = TenantTemplate("dedicated", args)
        component.published.apply(published.append)
        return component

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
    monitor = await register(
        lambda provider: Guardrails("shared", GuardrailsArgs(manifests=manifests, provider=provider))
    )
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
