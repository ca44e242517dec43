"""Pulumi's own mocks for components: a monitor that keeps what is registered, and small objects to register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.rpc import deserialize_properties
from pulumi.runtime.stack import wait_for_rpcs

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
