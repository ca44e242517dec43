"""Pulumi's engine as far as a program sees it: takes every registration, makes nothing, remembers the graph.

`offline` serves these two services to a program. Values that are secret come out as `[secret]`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, resource_pb2, resource_pb2_grpc

SECRET = "[secret]"  # noqa: S105 - what stands in its place
STACK = "pulumi:pulumi:Stack"
REFERENCE = "pulumi:pulumi:StackReference"

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - how Pulumi's wire format marks a secret

_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
)

Outputs = Mapping[str, Any]


@dataclass(slots=True)
class Graph:
    """What a program registered: resources by URN, and the stack's outputs."""

    project: str
    stack: str
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)

    def urn(self, kind: str, name: str, parent: str) -> str:
        """The URN that the engine gives: types of all parents but the stack, then the name."""
        above = parent.split("::")[2] if parent else STACK
        whole = kind if above == STACK else f"{above}${kind}"
        return f"urn:pulumi:{self.stack}::{self.project}::{whole}::{name}"

    def short(self, urn: str) -> str:
        """`type name` of a resource, of a provider's reference too."""
        _, _, kinds, name = urn.split("::")[:4]
        return f"{kinds.rpartition('$')[2]} {name}"

    def as_json(self) -> dict[str, Any]:
        """The graph as JSON values, in an order that does not depend on who came first."""
        resources = sorted(self.resources.values(), key=lambda made: (made["type"], made["name"]))
        return {"stack": self.stack, "resources": resources, "outputs": self.outputs}


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Takes registrations. `outputs` answer a StackReference, by the full name of the stack."""

    def __init__(self, graph: Graph, outputs: Mapping[str, Outputs]) -> None:
        self._graph = graph
        self._outputs = outputs
        self._lock = Lock()

    def GetDeploymentInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> resource_pb2.DeploymentInfo:
        """What this engine can do."""
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def RegisterResource(
        self, request: resource_pb2.RegisterResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.RegisterResourceResponse:
        """Remember a resource and answer that it is there, as it was asked for."""
        urn = self._graph.urn(request.type, request.name, request.parent)
        with self._lock:
            if urn in self._graph.resources:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"registered twice: {self._graph.short(urn)}")
            if request.type != STACK:
                self._graph.resources[urn] = self._entry(request)
        made = request.name if request.custom else ""
        return resource_pb2.RegisterResourceResponse(urn=urn, id=made, object=request.object)

    def RegisterResourceOutputs(
        self, request: resource_pb2.RegisterResourceOutputsRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Remember the outputs of the stack."""
        if request.urn.split("::")[2] == STACK:
            self._graph.outputs = _masked(_plain(request.outputs))
        return empty_pb2.Empty()

    def ReadResource(
        self, request: resource_pb2.ReadResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.ReadResourceResponse:
        """Answer a StackReference; nothing else is there to be read."""
        outputs = self._outputs.get(request.id) if request.type == REFERENCE else None
        if outputs is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"unknown stack: {request.id}")
            raise AssertionError  # abort never returns
        secret = sorted(name for name, value in outputs.items() if value == SECRET)
        held = {name: _secret(value) if name in secret else value for name, value in outputs.items()}
        answer = {"name": request.id, "outputs": held, "secretOutputNames": secret}
        urn = self._graph.urn(request.type, request.name, request.parent)
        return resource_pb2.ReadResourceResponse(urn=urn, properties=json_format.ParseDict(answer, struct_pb2.Struct()))

    def SignalAndWaitForShutdown(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """The program may end."""
        return empty_pb2.Empty()

    def _entry(self, request: resource_pb2.RegisterResourceRequest) -> dict[str, Any]:
        graph = self._graph
        options: dict[str, Any] = {
            "aliases": [_alias(alias.spec) for alias in request.aliases],
            "protect": request.protect,
            "retainOnDelete": request.retainOnDelete,
            "version": request.version,
        }
        entry = {
            "type": request.type,
            "name": request.name,
            "parent": graph.short(request.parent) if request.parent.split("::")[2:3] != [STACK] else None,
            "provider": graph.short(request.provider) if request.provider else None,
            "dependencies": sorted(map(graph.short, request.dependencies)),
            "properties": _masked(_plain(request.object)),
            "options": {name: value for name, value in options.items() if value},
        }
        return {name: value for name, value in entry.items() if value or name in ("type", "name")}


class Engine(engine_pb2_grpc.EngineServicer):
    """Says on standard error what the program logs, keeps the errors and the root of its resources."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._root = ""

    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Print a message that is worth a person's time; an error is for whoever runs the program."""
        if request.severity >= engine_pb2.ERROR:
            self.errors.append(request.message)
        elif request.severity >= engine_pb2.INFO:
            print(f"{engine_pb2.LogSeverity.Name(request.severity).lower()}: {request.message}", file=sys.stderr)
        return empty_pb2.Empty()

    def GetRootResource(
        self, request: engine_pb2.GetRootResourceRequest, context: grpc.ServicerContext
    ) -> engine_pb2.GetRootResourceResponse:
        """The URN of the stack."""
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(
        self, request: engine_pb2.SetRootResourceRequest, context: grpc.ServicerContext
    ) -> engine_pb2.SetRootResourceResponse:
        """Remember the URN of the stack."""
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()


def _plain(properties: struct_pb2.Struct) -> Any:
    return json_format.MessageToDict(properties)


def _secret(value: Any) -> dict[str, Any]:
    return {_SIGNATURE: _SECRET_SIGNATURE, "value": value}


def _masked(value: Any) -> Any:
    """The value with every secret in it masked; whole numbers as such, which protobuf knows only as fractions."""
    if isinstance(value, dict):
        if value.get(_SIGNATURE) == _SECRET_SIGNATURE:
            return SECRET
        return {key: _masked(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_masked(held) for held in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _alias(spec: Any) -> str:
    parts: Iterable[str] = (
        f"{name}: {getattr(spec, name)}" for name in ("name", "type", "parentUrn", "noParent") if getattr(spec, name)
    )
    return ", ".join(parts)
