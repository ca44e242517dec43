"""The reference page about runtimes: what each engine is told, owns, publishes and needs. Written by `reference.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provisioner.admission.serving import owned_flags
from provisioner.catalog.loader import load_catalog
from provisioner.catalog.runtime import Parameter, Runtime
from provisioner.rendering.shape import ENGINE_METRICS

Rows = Sequence[Sequence[str]]


def runtimes_page() -> str:
    """Every runtime, with its serving parameters."""
    lines = ["# Runtimes", "", "From `applications/runtimes/<runtime>/runtime.yaml`."]
    for _, runtime in sorted(load_catalog().runtimes.items()):
        lines += ["", f"## {runtime.name}", "", f"{runtime.description}.", ""]
        lines += _table(("", ""), list(_facts(runtime)))
        rows = [_parameter(name, parameter) for name, parameter in runtime.parameters.items()]
        lines += ["", *_table(("parameter", "type", "flag", "allowed", "set by", "meaning"), rows)]
    return "\n".join([*lines, ""])


def _facts(runtime: Runtime) -> Iterator[tuple[str, str]]:
    yield "serves", ", ".join(runtime.kinds) + (f": only {', '.join(runtime.models)}" if runtime.models else "")
    yield "profiles", ", ".join(runtime.profiles)
    yield (
        "port, health, metrics",
        f"{runtime.port}, `{runtime.health_path}`, "
        + (f"`{runtime.metrics_path}`" if runtime.metrics_path else "none"),
    )
    yield "weights", _weights(runtime)
    signals = [f"`{signal}`" for signal, metric in ENGINE_METRICS.items() if metric in runtime.metrics]
    yield "signals of its own", ", ".join(signals) or "none: scaled by its GPUs"
    yield "adapters", "yes" if runtime.adapter_arguments else "no"
    yield "replicas that span nodes", "yes" if runtime.spanning else "no"
    flags = [f"`{flag}`" for flag, parameter in sorted(owned_flags(runtime).items()) if parameter is None]
    yield "flags that it owns beside its parameters'", ", ".join(flags) or "none"


def _weights(runtime: Runtime) -> str:
    if runtime.loads == "hub":
        return "fetched by the server itself, kept below `/models`"
    return "fetched before the server starts" if runtime.fetch else "expected on the volume"


def _parameter(name: str, parameter: Parameter) -> tuple[str, ...]:
    return (
        f"`{name}`",
        str(parameter.type),
        f"`{parameter.flag}`" if parameter.flag else "not told",
        _allowed(parameter),
        "master" if parameter.fixed else "master, request",
        parameter.description,
    )


def _allowed(parameter: Parameter) -> str:
    if parameter.options:
        return ", ".join(parameter.options)
    if parameter.minimum is None and parameter.maximum is None:
        return "any"
    return " … ".join("" if bound is None else f"{bound:g}" for bound in (parameter.minimum, parameter.maximum))


def _table(columns: Sequence[str], rows: Rows) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows)]
