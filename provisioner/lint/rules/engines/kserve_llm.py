"""LLMInferenceServices of KServe: the gateways that they name, and how the model is cut."""

from __future__ import annotations

from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.quantities import amount
from provisioner.lint.model_servers import GPU_RESOURCES
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, look, mapping, whole
from provisioner.lint.world import Object, World, same_namespace

_PARTS = ((), ("prefill",))


def _services(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("LLMInferenceService") if found.group == "serving.kserve.io")


@rule("kserve-llm-gateway-unknown", Severity.ERROR)
def kserve_llm_gateway_unknown(world: World) -> Iterator[Hit]:
    """An LLMInferenceService names a Gateway that its namespace does not have, though it has others.

    KServe makes a route to it, which no Gateway takes: the service is never ready (`RefsInvalid`).
    """
    gateways = [one for one in world.of_kind("Gateway") if one.group == "gateway.networking.k8s.io"]
    for found in _services(world) if gateways else ():
        for path, item in items(found.value, "spec", "router", "gateway", "refs"):
            name = literal(item, "name")
            space = literal(item, "namespace") if "namespace" in mapping(item) else found.namespace
            names = sorted({one.name for one in gateways if same_namespace(one.namespace, space)})
            if name and names and name not in names:
                near = nearest_name(name, names)
                message = f"routing to {found.name}: namespace `{space or '(default)'}` has no Gateway `{name}`"
                fix = f"did you mean {near}?" if near else f"name one of: {', '.join(names)}"
                yield Hit(at=found, path=(*path, "name"), message=message, fix=fix)


_MAIN = "main"


@rule("kserve-llm-without-main", Severity.WARNING)
def kserve_llm_without_main(world: World) -> Iterator[Hit]:
    """An LLMInferenceService sizes a container that is not the one of the engine.

    KServe merges its own template with the service's by the names of containers, and the engine's is `main`. One of
    another name runs beside it, and the engine gets neither its GPUs nor its arguments.
    """
    for found in _services(world):
        for part in _PARTS:
            for field in ("template", "worker"):
                boxes = items(found.value, "spec", *part, field, "containers")
                named = [(path, literal(item, "name")) for path, item in boxes]
                if len(named) == 1 and named[0][1] not in (None, _MAIN):
                    message = f"serving {found.name}: the engine's container is `{_MAIN}`, not `{named[0][1]}`"
                    yield Hit(at=found, path=(*named[0][0], "name"), message=message, fix=f"call it {_MAIN}")


@rule("kserve-llm-parallelism", Severity.ERROR)
def kserve_llm_parallelism(world: World) -> Iterator[Hit]:
    """An LLMInferenceService cuts its model over more GPUs than its container gets.

    `parallelism.tensor` becomes the engine's tensor parallel size: it ends while it sets up its workers.
    """
    for found in _services(world):
        for part in _PARTS:
            path = ("spec", *part, "parallelism", "tensor")
            tensor = whole(found.value, *path)
            boxes = [item for _, item in items(found.value, "spec", *part, "template", "containers")]
            asked = [
                amount(look(box, "resources", "limits", name))
                for box in boxes
                for name in GPU_RESOURCES
                if look(box, "resources", "limits", name) is not None
            ]
            gpus = asked[0] if len(asked) == 1 else None
            if tensor is not None and gpus is not None and tensor > gpus:
                message = f"counting GPUs of {found.name}: its group needs {tensor}, the container gets `{gpus}`"
                fix = "make the limit of GPUs and parallelism.tensor agree"
                yield Hit(at=found, path=path, message=message, fix=fix)
