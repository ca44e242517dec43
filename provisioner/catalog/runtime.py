"""A runtime: one serving engine and how a replica of it is run. One folder each under `applications/runtimes/`."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from provisioner.catalog.entry import Entry, digest_of
from provisioner.catalog.model import ModelKind
from provisioner.catalog.quantity import Quantity

_NOT_OF_PODS = {"description", "kinds", "known_flags", "metrics", "metrics_path", "models", "owned_flags"}
_NOT_OF_PODS |= {"parameters", "profiles"}
"""What a runtime says that changes no pod."""


class ParameterType(StrEnum):
    """The type of a serving parameter's value."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"


class Parameter(Entry):
    """A serving parameter that a master sets, and the engine's flag it becomes.

    A request may override it unless it is `fixed`. Without a flag it is a bound for planning and for the gateway; the
    engine is not told.
    """

    description: str
    type: ParameterType
    flag: Annotated[str | None, Field(pattern=r"^--[a-z0-9-]+$")] = None
    minimum: float | None = None
    maximum: float | None = None
    options: tuple[str, ...] | None = None
    fixed: Annotated[bool, Field(description="only the master sets it; a request may not override it")] = False


class Fetch(Entry):
    """How weights get to where the server reads them: a command of the engine's own image, given `each` for the model
    and for every adapter. It may be run again over what it left, and finishes what is missing.

    Placeholders of `each`: `{source}`, `{pin}`, `{path}` (where to put it) and the names of serving parameters.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    each: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: Annotated[dict[str, str], Field(default_factory=dict)]
    hub: Annotated[str | None, Field(description="variable that names the site's own hub, where it has one")] = None


class Spanning(Entry):
    """How one replica runs on several nodes: what the first pod does before the server's command line, what the others
    do, and what the server is told on top."""

    leader: Annotated[tuple[str, ...], Field(min_length=1, description="command that is given the server's")]
    worker: Annotated[tuple[str, ...], Field(min_length=1)]
    arguments: tuple[str, ...] = ()
    environment: Annotated[dict[str, str], Field(default_factory=dict)]
    address_variable: Annotated[
        str | None, Field(description="variable that is given the pod's own address on the overlay network")
    ] = None


class Runtime(Entry):
    """One serving engine."""

    description: str
    name: str
    profiles: Annotated[tuple[Literal["dev", "prod"], ...], Field(description="site profiles that may run it")]
    kinds: tuple[ModelKind, ...]
    models: Annotated[tuple[str, ...] | None, Field(description="the only models it serves; null for any")] = None
    port: Annotated[int, Field(ge=1, le=65535)]
    health_path: str
    metrics_path: Annotated[str | None, Field(description="where it publishes metrics; null for nowhere")] = "/metrics"
    command: Annotated[tuple[str, ...], Field(description="the server's command; none takes the image's own")] = ()
    arguments: Annotated[tuple[str, ...], Field(description="fixed command-line arguments of the server")] = ()
    owned_flags: Annotated[
        tuple[str, ...], Field(description="flags that nobody else may give, beside those of arguments and parameters")
    ] = ()
    known_flags: Annotated[
        Literal["vllm"] | None, Field(description="engine whose flags extra arguments must be; null where nobody knows")
    ] = None
    adapter_arguments: Annotated[
        tuple[str, ...] | None,
        Field(description="arguments that load the adapters, `{adapters}` stands for all; null where it loads none"),
    ] = None
    parameters: dict[str, Parameter]
    context_parameter: Annotated[str, Field(description="the parameter that bounds tokens kept per request")]
    concurrency_parameter: Annotated[str | None, Field(description="the one that bounds parallel requests")] = None
    gpus_parameter: Annotated[str | None, Field(description="the one that is the GPUs of a replica")] = None
    metrics: Annotated[dict[str, str], Field(description="our metric name -> the engine's")]
    environment: Annotated[dict[str, str], Field(default_factory=dict, description="the server's own variables")]
    fetch: Annotated[
        Fetch | None, Field(description="null where the server fetches its weights itself, or finds them there")
    ] = None
    credential: Annotated[
        str | None,
        Field(description="variable of what fetches weights: the token of Secret `model-credentials`, if there is one"),
    ] = None
    loads: Annotated[
        Literal["path", "hub"], Field(description="whether the server reads a path, or fetches for itself as it starts")
    ] = "path"
    shared_memory_per_gpu: Annotated[
        Quantity | None, Field(description="of the pod's memory, for processes that exchange tensors; null for none")
    ] = None
    spanning: Annotated[Spanning | None, Field(description="null where a replica fits one node only")] = None

    @cached_property
    def serving_digest(self) -> str:
        """A digest of what changes the pods that it runs in: not of prose."""
        told = self.model_dump(mode="json", exclude=_NOT_OF_PODS)
        return digest_of([told, {name: parameter.flag for name, parameter in self.parameters.items()}])

    @cached_property
    def wanted_of_masters(self) -> frozenset[str]:
        """Parameters without which its command lines have a hole, and which no request may set."""
        texts = (*self.arguments, *(self.fetch.each if self.fetch else ()))
        return frozenset(
            name for name, parameter in self.parameters.items() if parameter.fixed and f"{{{name}}}" in "".join(texts)
        )

    @cached_property
    def overridable(self) -> dict[str, Parameter]:
        """The parameters that a request may override."""
        return {name: parameter for name, parameter in self.parameters.items() if not parameter.fixed}
