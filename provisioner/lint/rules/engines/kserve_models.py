"""InferenceServices of KServe against their runtimes and their storage: modes, bounds, formats, where weights are from.

Sources: KServe's control plane, modes in `pkg/constants`, storage in its webhook's list of prefixes, formats in
`RuntimeSupportsModel`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._kserve import PARTS, PREFIX, inference_services
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, whole
from provisioner.lint.world import Object, World, same_namespace

_MODES = ("Standard", "Knative", "ModelMesh", "RawDeployment", "Serverless")
"""The last two are the names until 0.15 of the first two, and still read."""
_MODE = f"{PREFIX}deploymentMode"
_SCHEMES = ("gs", "s3", "pvc", "file", "https", "http", "hdfs", "webhdfs", "oci", "hf")
_RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
_CONTAINER = "kserve-container"
_SHIPPED = "kserve-"
"""What the names of the runtimes that KServe's own chart installs begin with."""


@rule("kserve-bounds-reversed", Severity.ERROR)
def kserve_bounds_reversed(world: World) -> Iterator[Hit]:
    """An InferenceService wants at least more replicas than at most.

    KServe's webhook refuses it: `MinReplicas cannot be greater than MaxReplicas`. A maxReplicas of 0 means no bound.
    """
    for found in inference_services(world):
        for part in PARTS:
            least = whole(found.value, "spec", part, "minReplicas")
            most = whole(found.value, "spec", part, "maxReplicas")
            if least is not None and most and least > most:
                message = f"scaling {found.name}: minReplicas {least} is above maxReplicas: `{most}`"
                yield Hit(at=found, path=("spec", part, "minReplicas"), message=message, fix="exchange them")


@rule("kserve-mode-unknown", Severity.ERROR)
def kserve_mode_unknown(world: World) -> Iterator[Hit]:
    """An InferenceService is to be deployed in a mode that KServe does not have.

    The modes are Standard (once RawDeployment), Knative (once Serverless) and ModelMesh. KServe takes its configured
    default for any other word, which may be the one that should be avoided.
    """
    for found in inference_services(world):
        mode = found.annotations.get(_MODE)
        if mode is not None and not has_hole(mode) and mode not in _MODES:
            near = nearest_name(mode, _MODES) or ("Standard" if "raw" in mode.lower() else None)
            fix = f"did you mean {near}?" if near else "write Standard, Knative or ModelMesh"
            message = f"deploying {found.name}: KServe has no such mode: `{mode}`"
            yield Hit(at=found, path=("metadata", "annotations", _MODE), message=message, fix=fix)


def _addresses(found: Object) -> Iterator[tuple[FieldPath, str]]:
    """Where the weights come from."""
    for part in PARTS:
        frameworks = [name for name, held in mapping(found.value, "spec", part).items() if isinstance(held, dict)]
        places: list[FieldPath] = [("spec", part, name, "storageUri") for name in frameworks]
        places += [(*path, "uri") for path, _ in items(found.value, "spec", part, "model", "storageUris")]
        places += [(*path, "uri") for path, _ in items(found.value, "spec", part, "storageUris")]
        for place in places:
            if (address := literal(found.value, *place)) is not None:
                yield place, address
    if (address := literal(found.value, "spec", "model", "uri")) is not None:
        yield ("spec", "model", "uri"), address


def _served(world: World) -> Iterator[Object]:
    """Everything that takes weights from an address."""
    yield from inference_services(world)
    yield from (found for found in world.of_kind("LLMInferenceService") if found.group == "serving.kserve.io")


def _more_schemes(world: World) -> Iterator[str]:
    for found in world.of_kind("ClusterStorageContainer"):
        for path in (("supportedUriFormats",), ("spec", "supportedUriFormats")):
            for _, entry in items(found.value, *path):
                yield (text(entry, "prefix") or text(entry, "regex") or "").partition(":")[0]


@rule("kserve-storage-unknown", Severity.WARNING)
def kserve_storage_unknown(world: World) -> Iterator[Hit]:
    """An InferenceService takes its weights from an address whose scheme KServe does not know.

    Its webhook refuses what none of its storage containers supports. By itself KServe reads gs, s3, pvc, file, hf, oci,
    http, https (Azure's blobs among them), hdfs and webhdfs; a ClusterStorageContainer may add others.
    """
    known = {*_SCHEMES, *_more_schemes(world)}
    for found in _served(world):
        for path, address in _addresses(found):
            scheme = re.match(r"([A-Za-z][\w+.-]*):(/*)", address)
            if scheme is not None and (scheme[1] not in known or scheme[2] != "//"):
                near = "hf" if scheme[1].startswith("hugging") else nearest_name(scheme[1], sorted(known))
                fix = f"did you mean {near}://?" if near else f"use one of: {', '.join(sorted(known))}"
                message = f"fetching weights for {found.name}: KServe reads no such addresses: `{address}`"
                yield Hit(at=found, path=path, message=message, fix=fix)


@rule("kserve-claim-missing", Severity.ERROR)
def kserve_claim_missing(world: World) -> Iterator[Hit]:
    """An InferenceService takes its weights from a claim that its namespace does not have, though it has others.

    `pvc://<claim>/<path>` is mounted into the pods, which wait for ever for a claim that is not there.
    """
    for found in _served(world) if world.has("PersistentVolumeClaim") else ():
        names = [
            claim.name
            for claim in world.of_kind("PersistentVolumeClaim")
            if same_namespace(claim.namespace, found.namespace)
        ]
        for path, address in _addresses(found):
            claimed = re.match(r"pvc://([^/]+)", address)
            if claimed is not None and names and claimed[1] not in names:
                message = f"fetching weights for {found.name}: its namespace has no claim `{claimed[1]}`"
                yield Hit(at=found, path=path, message=message, fix=f"use one of: {', '.join(sorted(set(names)))}")


def _named_runtimes(world: World) -> Iterator[tuple[Object, str, Object | None]]:
    """InferenceServices that name a runtime of the folder's, and the runtime."""
    for found in inference_services(world) if any(map(world.has, _RUNTIMES)) else ():
        name = literal(found.value, "spec", "predictor", "model", "runtime")
        if name:
            own = world.find("ServingRuntime", name, namespace=found.namespace)
            yield found, name, own or world.find("ClusterServingRuntime", name)


@rule("kserve-runtime-unknown", Severity.ERROR)
def kserve_runtime_unknown(world: World) -> Iterator[Hit]:
    """An InferenceService names a runtime that the folder does not hold, though it holds others.

    A ServingRuntime serves its own namespace only, a ClusterServingRuntime all of them. Without its runtime an
    InferenceService is never deployed: `RuntimeNotRecognized`. What KServe's chart installs itself begins with
    `kserve-` and is left alone.
    """
    path = ("spec", "predictor", "model", "runtime")
    for found, name, runtime in _named_runtimes(world):
        if runtime is not None or name.startswith(_SHIPPED):
            continue
        elsewhere = world.find("ServingRuntime", name)
        names = sorted({one.name for one in world.of_kind(*_RUNTIMES)})
        where = f"only namespace {elsewhere.namespace} has it" if elsewhere else "there is none of that name"
        message = f"serving {found.name}: no runtime for it, {where}: `{name}`"
        near = nearest_name(name, names)
        fix = f"did you mean {near}?" if near else f"use one of: {', '.join(names)}"
        fix = "put it into this namespace, or make it a ClusterServingRuntime" if elsewhere else fix
        yield Hit(at=found, path=path, message=message, fix=fix)


@rule("kserve-runtime-without-container", Severity.ERROR)
def kserve_runtime_without_container(world: World) -> Iterator[Hit]:
    """A runtime of KServe has no container named `kserve-container`.

    KServe merges what an InferenceService says of its model into the container of that name, and deploys nothing
    where there is none. Runtimes of ModelMesh (`multiModel: true`) name theirs as they like.
    """
    for runtime in world.of_kind(*_RUNTIMES):
        boxes = [item for _, item in items(runtime.value, "spec", "containers")]
        names = [literal(box, "name") for box in boxes]
        if boxes and None not in names and _CONTAINER not in names and not look(runtime.value, "spec", "multiModel"):
            message = f"serving with {runtime.name}: none of its containers is `{_CONTAINER}`: `{names[0]}`"
            path = ("spec", "containers", 0, "name")
            yield Hit(at=runtime, path=path, message=message, fix=f"name the model server's {_CONTAINER}")


@rule("kserve-format-unsupported", Severity.ERROR)
def kserve_format_unsupported(world: World) -> Iterator[Hit]:
    """An InferenceService names a runtime that does not support its model's format.

    Name, and version where it is given, must be among the runtime's supportedModelFormats; KServe deploys nothing
    otherwise: `NoSupportingRuntime`.
    """
    for found, name, runtime in _named_runtimes(world):
        wanted = mapping(found.value, "spec", "predictor", "model", "modelFormat")
        formats = [item for _, item in items(runtime.value, "spec", "supportedModelFormats")] if runtime else []
        label, version = literal(wanted, "name"), look(wanted, "version")
        if not formats or label is None or has_hole(version) or any(has_hole(look(one, "name")) for one in formats):
            continue
        if not any(_is_format(one, label, version) for one in formats):
            listed = ", ".join(sorted({_shown(one) for one in formats}))
            message = f"serving {found.name}: runtime {name} does not support the format `{_shown(wanted)}`"
            path = ("spec", "predictor", "model", "modelFormat")
            yield Hit(at=found, path=path, message=message, fix=f"it supports: {listed}")


def _is_format(supported: Any, name: str, version: Any) -> bool:
    return look(supported, "name") == name and (version is None or str(look(supported, "version")) == str(version))


def _shown(written: Mapping[str, Any]) -> str:
    version = look(written, "version")
    return f"{look(written, 'name')}{'' if version is None else f' {version}'}"
