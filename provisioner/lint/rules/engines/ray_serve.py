"""Ray Serve's configuration in a RayService: a text that must be YAML, and replicas that need GPUs of the workers.

Sources: KubeRay's RayService (`serveConfigV2` is handed to Ray Serve as it is), and Ray Serve's autoscaling and LLM
guides: a deployment's replica that finds no GPUs stays pending.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.domain.finding import Severity
from provisioner.lint.joins.capacity import pod_gpus
from provisioner.lint.joins.quantities import accelerators
from provisioner.lint.model_servers import GPU_RESOURCES
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._ray_config import APPLICATIONS, applications
from provisioner.lint.values import has_hole, items, look, mapping, text, whole
from provisioner.lint.world import Object, PodTemplate, World
from provisioner.lint.yaml_text import parse_documents

_HEAD = ("spec", "rayClusterConfig", "headGroupSpec", "template")
_GROUPS = ("spec", "rayClusterConfig", "workerGroupSpecs")


@rule("ray-serve-config-malformed", Severity.ERROR)
def ray_serve_config_malformed(world: World) -> Iterator[Hit]:
    """The text of a RayService's `serveConfigV2` is no YAML mapping with applications.

    KubeRay hands it to Ray Serve, which refuses it: the cluster starts, holds its GPUs and serves nothing.
    """
    for found in world.of_kind("RayService"):
        written = text(found.value, *APPLICATIONS)
        if not written or has_hole(written):
            continue
        documents = list(parse_documents(written, file=found.file))
        value = documents[0].value if len(documents) == 1 else None
        trouble = next((oddity.message for one in documents for oddity in one.oddities), None)
        if not isinstance(value, Mapping):
            message = f"reading serveConfigV2 of {found.name}: {trouble or 'it is no mapping'}"
            yield Hit(at=found, path=APPLICATIONS, message=message, fix="correct the indentation of the text")
        elif not isinstance(value.get("applications"), list):
            message = f"reading serveConfigV2 of {found.name}: it has no list of `applications`"
            yield Hit(at=found, path=APPLICATIONS, message=message, fix="write `applications:` and a list below it")


@rule("ray-serve-config-refused", Severity.ERROR)
def ray_serve_config_refused(world: World) -> Iterator[Hit]:
    """Ray Serve refuses an application of a RayService: its import path, a name or prefix, or reversed bounds.

    `import_path` is `module:attribute`, two applications need route prefixes and names of their own, every deployment
    has a name, and min_replicas may not be above max_replicas. The cluster starts, holds its GPUs and serves nothing.
    """
    for found in world.of_kind("RayService"):
        seen: set[tuple[str, str]] = set()
        for application in applications(found):
            for why, fix in (*_faults(application), *_repeated(application, seen)):
                message = f"reading serveConfigV2 of {found.name}: {why}"
                yield Hit(at=found, path=APPLICATIONS, message=message, fix=fix)


def _faults(application: Any) -> Iterator[tuple[str, str]]:
    path = text(application, "import_path")
    if path is not None and not re.search(r"[:.]", path):
        yield f"import_path names no module: `{path}`", "write module:attribute"
    for _, deployment in items(application, "deployments"):
        if not text(deployment, "name"):
            yield "one of the deployments has no name: `deployments`", "give it the name that its code has"
    for deployment in _deployments_of(application):
        least, most = (whole(deployment, "autoscaling_config", f"{word}_replicas") for word in ("min", "max"))
        if least is not None and most is not None and least > most:
            yield f"min_replicas {least} is above max_replicas: `{most}`", "exchange them"


def _repeated(application: Any, seen: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for field in ("name", "route_prefix"):
        value = text(application, field)
        if value is not None and (field, value) in seen:
            yield f"two applications have one {field}: `{value}`", f"give each a {field} of its own"
        seen.add((field, value or ""))


def _deployments_of(application: Any) -> Iterator[Any]:
    for _, model in items(application, "args", "llm_configs"):
        yield mapping(model, "deployment_config")
    for _, deployment in items(application, "deployments"):
        yield deployment


@rule("ray-serve-replica-too-large", Severity.ERROR)
def ray_serve_replica_too_large(world: World) -> Iterator[Hit]:
    """A replica of Ray Serve wants more GPUs than any node of the cluster has.

    An actor stands on one node: with `num_gpus` above those of every worker it stays pending for ever, and the service
    never becomes ready.
    """
    for found in world.of_kind("RayService"):
        templates = [_HEAD, *((*path, "template") for path, _ in items(found.value, *_GROUPS))]
        pods = [PodTemplate(found, path) for path in templates]
        has_others = any(not accelerators(pod).keys() <= set(GPU_RESOURCES) for pod in pods)
        most = max(pod_gpus(pod) for pod in pods)
        for application in applications(found) if most and not has_others else ():
            for _, deployment in items(application, "deployments"):
                gpus = look(deployment, "ray_actor_options", "num_gpus")
                if isinstance(gpus, int | float) and not isinstance(gpus, bool) and gpus > most:
                    message = f"serving {found.name}: a replica wants {gpus:g} GPUs, a node has at most `{most}`"
                    fix = "lower num_gpus, or give the workers more GPUs"
                    yield Hit(at=found, path=APPLICATIONS, message=message, fix=fix)


@rule("ray-serve-needs-more-workers", Severity.WARNING)
def ray_serve_needs_more_workers(world: World) -> Iterator[Hit]:
    """Ray Serve may want more replicas than the GPUs of head and workers hold.

    Ray's autoscaler adds workers up to `maxReplicas` of their groups; replicas beyond stay pending while requests queue
    for them. GPUs of a replica are tensor_parallel_size times pipeline_parallel_size of the engine, or `num_gpus`.
    """
    for found in world.of_kind("RayService"):
        have = _gpus_at_most(found)
        wanted = [(most, gpus) for most, gpus in _deployments(found) if gpus]
        need = sum(most * gpus for most, gpus in wanted)
        if have is not None and need > have:
            message = f"scaling {found.name}: its replicas may need {need:g} GPUs, the cluster has at most `{have}`"
            fix = "lower max_replicas, or raise maxReplicas of a worker group"
            yield Hit(at=found, path=APPLICATIONS, message=message, fix=fix)


def _gpus_at_most(found: Object) -> int | None:
    """The GPUs of the head and of all workers at their upper bounds; None where that is not known, and for devices
    of other sorts."""
    total = pod_gpus(PodTemplate(found, _HEAD))
    if not any(True for _ in items(found.value, *_GROUPS)):
        return None
    for path, group in items(found.value, *_GROUPS):
        most = whole(group, "maxReplicas")
        most = whole(group, "replicas") if most is None else most
        pod = PodTemplate(found, (*path, "template"))
        has_others = bool(look(pod.spec, "resourceClaims")) or not accelerators(pod).keys() <= set(GPU_RESOURCES)
        if most is None or has_others:
            return None
        total += most * pod_gpus(pod) * (whole(group, "numOfHosts") or 1)
    return total


def _deployments(found: Object) -> Iterator[tuple[int, float]]:
    """Of every deployment that the configuration bounds: replicas at most, and the GPUs of one."""
    for application in applications(found):
        for _, model in items(application, "args", "llm_configs"):
            engine = mapping(model, "engine_kwargs")
            gpus = (whole(engine, "tensor_parallel_size") or 1) * (whole(engine, "pipeline_parallel_size") or 1)
            yield _most(mapping(model, "deployment_config")), gpus
        for _, deployment in items(application, "deployments"):
            gpus = look(deployment, "ray_actor_options", "num_gpus")
            yield _most(deployment), gpus if isinstance(gpus, int | float) and not isinstance(gpus, bool) else 0


def _most(deployment: Mapping[str, Any]) -> int:
    """Replicas of a deployment at most."""
    return whole(deployment, "autoscaling_config", "max_replicas") or whole(deployment, "num_replicas") or 1
