"""A runtime: one serving engine and how a replica of it is run. One folder each under `applications/runtimes/`."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from provisioner.catalog.entry import Entry, digest_of
from provisioner.catalog.model import ModelKind


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


class Runtime(Entry):
    """One serving engine."""

    description: str
    name: str
    profiles: Annotated[tuple[Literal["dev", "prod"], ...], Field(description="site profiles that may run it")]
    kinds: tuple[ModelKind, ...]
    models: Annotated[tuple[str, ...] | None, Field(description="the only models it serves; null for any")] = None
    port: Annotated[int, Field(ge=1, le=65535)]
    health_path: str
    arguments: Annotated[tuple[str, ...], Field(description="fixed command-line arguments of the server")] = ()
    owned_flags: Annotated[
        tuple[str, ...], Field(description="flags that nobody else may give, beside those of arguments and parameters")
    ] = ()
    adapter_arguments: Annotated[
        tuple[str, ...] | None,
        Field(description="arguments that load the adapters, `{adapters}` stands for all; null where it loads none"),
    ] = None
    parameters: dict[str, Parameter]
    context_parameter: Annotated[str, Field(description="the parameter that bounds tokens kept per request")]
    concurrency_parameter: Annotated[str | None, Field(description="the one that bounds parallel requests")] = None
    gpus_parameter: Annotated[str | None, Field(description="the one that is the GPUs of a replica")] = None
    metrics: Annotated[dict[str, str], Field(description="our metric name -> the engine's")]
    options: Annotated[dict[str, Any], Field(description="constants for the templates", default_factory=dict)]

    @cached_property
    def serving_digest(self) -> str:
        """A digest of what changes the pods that it runs in: not of prose."""
        told = self.model_dump(mode="json", include={"name", "port", "health_path", "arguments", "options"})
        return digest_of([told, {name: parameter.flag for name, parameter in self.parameters.items()}])

    @cached_property
    def overridable(self) -> dict[str, Parameter]:
        """The parameters that a request may override."""
        return {name: parameter for name, parameter in self.parameters.items() if not parameter.fixed}
