"""Weights that an init container or a Job puts on a volume, and the folder where an engine looks for them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import volumes
from provisioner.lint.model_servers import Engine, engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, look, text
from provisioner.lint.world import Container, PodTemplate, World

_DOWNLOADS = re.compile(
    r"\b(?:(huggingface-cli|hf) download|snapshot_download|aws s3 (cp|sync)|curl|wget|s5cmd|rclone|gsutil)\b"
)
_TARGET = re.compile(
    r"(?:--local-dir[= ]|local_dir\s*=\s*|--output[= ]|-o |-O |--output-document[= ]|--dir[= ])[\"']?(/[^\s\"',;)]+)"
)
_COPIED = re.compile(r"\b(?:cp|sync|copy|rsync)\b (?:-\S+ )*\S+:\S+ [\"']?(/[^\s\"',;)]+)")


@dataclass(frozen=True, slots=True)
class _Filled:
    """A folder or file of a volume that somebody writes."""

    volume: tuple[str, ...]
    place: str


def _volume(pod: PodTemplate, name: str) -> tuple[str, ...] | None:
    """What stands for one volume: a claim of the namespace, or a volume of the pod's own."""
    volume = volumes(pod).get(name)
    claim, folder = text(volume, "persistentVolumeClaim", "claimName"), text(volume, "hostPath", "path")
    if claim is not None:
        return "claim", str(pod.namespace), claim
    if folder is not None:
        return "node", folder.rstrip("/")
    return "pod", str(id(pod.owner)), *map(str, pod.path), name


def _on_volume(pod: PodTemplate, container: Container, place: str) -> _Filled | None:
    """Where a path of a container lies on a volume, None where it lies on none."""
    found: tuple[str, _Filled] | None = None
    for _, item in items(container.value, "volumeMounts"):
        where, name = literal(item, "mountPath"), literal(item, "name")
        sub = text(item, "subPath") or ""
        if where is None or name is None or look(item, "subPathExpr") is not None or "$" in sub:
            continue
        top = where.rstrip("/")
        volume = _volume(pod, name)
        if volume is not None and (place == top or place.startswith(f"{top}/")):
            inner = posixpath.normpath(f"/{sub}/{place[len(top) :]}")
            if found is None or len(top) > len(found[0]):
                found = top, _Filled(volume, re.sub(r"^/+", "/", inner))
    return found[1] if found else None


def _written(container: Container) -> Iterator[str]:
    script = " ".join(container.arguments)
    if _DOWNLOADS.search(f"{container.image} {script}") and "$" not in script:
        yield from (match.rstrip("/") for pattern in (_TARGET, _COPIED) for match in pattern.findall(script))


def _fillers(world: World) -> Mapping[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for pod, container, place in _filling(world):
        filled = _on_volume(pod, container, place)
        if filled is not None:
            found.setdefault(filled.volume, []).append(filled.place)
    return found


@rule("engine-model-not-where-filled", Severity.WARNING)
def engine_model_not_where_filled(world: World) -> Iterator[Hit]:
    """A model server looks for its model in another folder than the one that is filled on the same volume.

    An init container or a Job of the folder writes to the volume, and the path that the engine is given is none of
    those, nor inside or around one. A `subPath` of one mount and not of the other moves paths as well. The engine ends
    with `No such file or directory`, or takes the path for a name at the hub.
    """
    filled = _fillers(world)
    for engine in engines(world) if filled else ():
        for path, place in _model_paths(engine):
            there = _on_volume(engine.pod, engine.container, place)
            places = filled.get(there.volume, []) if there else []
            if there is None or not places or any(_meet(there.place, one) for one in places):
                continue
            message = f"loading for {engine.kind}: nothing fills `{place}` on its volume"
            fix = f"what is filled there: {', '.join(sorted(set(places))[:3])}; make paths and subPath agree"
            yield Hit(at=engine.pod.owner, path=path, message=message, fix=fix)


def _model_paths(engine: Engine) -> Iterator[tuple[FieldPath, str]]:
    model = engine.model or ""
    if model.startswith("/") and "$" not in model:
        yield engine.model_path, posixpath.normpath(model)


def _meet(one: str, other: str) -> bool:
    """Whether what is looked for is what is filled, or one lies inside the other; not its own name inside of it."""
    if one == f"{other}/{posixpath.basename(other)}":
        return False
    return one == other or one.startswith(f"{other.rstrip('/')}/") or other.startswith(f"{one.rstrip('/')}/")


def _filling(world: World) -> Iterator[tuple[PodTemplate, Container, str]]:
    """Every container that puts files into a folder before an engine starts, and the folder or file."""
    for pod in world.pods:
        for container in pod.containers:
            if container.is_init or pod.owner.kind in ("Job", "CronJob"):
                yield from ((pod, container, place) for place in _written(container))


@rule("download-on-read-only-mount", Severity.ERROR)
def download_on_read_only_mount(world: World) -> Iterator[Hit]:
    """An init container or a Job downloads to a volume that it mounts read-only.

    It ends with `Read-only file system`, and the pod never gets past it.
    """
    for pod, container, place in _filling(world):
        for path, item in items(container.value, "volumeMounts"):
            where = (literal(item, "mountPath") or "").rstrip("/")
            is_inside = where and (place == where or place.startswith(f"{where}/"))
            volume = volumes(pod).get(literal(item, "name") or "")
            is_closed = look(volume, "persistentVolumeClaim", "readOnly") is True
            if is_inside and (is_closed or look(item, "readOnly") is True):
                message = f"downloading to `{place}`: the volume is mounted read-only"
                at = (*container.path, *path, "readOnly")
                yield Hit(at=pod.owner, path=at, message=message, fix="mount it writable here")


_OWN = re.compile(r"^/(tmp|dev|var/tmp|root/\.cache)(/|$)")


@rule("download-on-no-volume", Severity.WARNING)
def download_on_no_volume(world: World) -> Iterator[Hit]:
    """An init container or a Job downloads to a folder on none of the volumes that it mounts.

    The files end with the container: the engine finds nothing, and the node's disk fills up while they come.
    """
    for pod, container, place in _filling(world):
        mounts = [literal(item, "mountPath") for _, item in items(container.value, "volumeMounts")]
        is_held = any(where and (f"{place}/").startswith(f"{where.rstrip('/')}/") for where in mounts)
        if mounts and None not in mounts and not is_held and not _OWN.match(place):
            message = f"downloading to `{place}`: no volume is mounted there"
            fix = f"download to {mounts[0]}, or mount the volume there"
            yield Hit(at=pod.owner, path=container.path, message=message, fix=fix)
