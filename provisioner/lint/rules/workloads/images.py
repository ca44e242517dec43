"""Image references: what a node would really run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, text
from provisioner.lint.world import Object, World

_FORM = re.compile(
    r"(?P<repository>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[0-9a-f]{32,}))?"
)
_MOVING = frozenset(
    ["beta", "canary", "dev", "develop", "edge", "head", "main", "master", "nightly", "rolling", "snapshot", "stable"]
)
_HOLDERS: tuple[str, ...] = (
    "RayCluster",
    "RayJob",
    "RayService",
    "InferenceService",
    "ServingRuntime",
    "ClusterServingRuntime",
)
_HOLDERS += ("ScaledJob", "Rollout", "LLMInferenceService", "Workflow", "WorkflowTemplate")


@dataclass(frozen=True, slots=True)
class _Image:
    owner: Object
    path: FieldPath
    reference: str

    @property
    def parts(self) -> re.Match[str] | None:
        return _FORM.fullmatch(self.reference)


@lru_cache(maxsize=2)
def _images(world: World) -> tuple[_Image, ...]:
    found = [
        _Image(pod.owner, (*container.path, "image"), container.image)
        for pod in world.pods
        for container in pod.containers
        if container.image
    ]
    for owner in world.of_kind(*_HOLDERS):
        found += [_Image(owner, path, image) for path, image in _below(owner.value, ())]
    return tuple(image for image in found if not re.search(r"\{\{|\$[({]|[<>]", image.reference))


def _below(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Images of all containers at any depth of a custom object."""
    if isinstance(value, Mapping):
        for part in ("initContainers", "containers"):
            for place, item in items(value, part):
                image = text(item, "image")
                if image:
                    yield (*path, *place, "image"), image
        for key, item in value.items():
            if key not in ("containers", "initContainers") and len(path) < 20:
                yield from _below(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _below(item, (*path, position))


@rule("image-malformed", Severity.ERROR)
def image_malformed(world: World) -> Iterator[Hit]:
    """An image reference is none that a container runtime can read.

    Repositories are lower-case, a tag has at most 128 characters, a digest is `sha256:` and 64 hexadecimal digits, and
    no scheme stands before the host. The pod stays in `InvalidImageName`. Source: the reference grammar of the OCI
    distribution specification.
    """
    for image in _images(world):
        parts = image.parts
        digest = parts["digest"] if parts else None
        if parts is None or (digest and digest.startswith("sha256:") and len(digest) != 71):
            message = f"reading image: not a reference that a node can pull: {shown(image.reference)}"
            fix = "write host/repository:tag@sha256:<64 hex digits>, the repository in lower case"
            yield Hit(at=image.owner, path=image.path, message=message, fix=fix)


@rule("image-tag-latest", Severity.ERROR)
def image_tag_latest(world: World) -> Iterator[Hit]:
    """An image has the tag `latest`, or no tag at all, which means the same.

    Two replicas started on different days run different engines, a roll-back pulls what it should leave, and nobody
    can say which version served a request. Source: Kubernetes documentation, "Images": avoid `:latest` in production.
    """
    for image in _images(world):
        parts = image.parts
        if parts and not parts["digest"] and parts["tag"] in (None, "latest"):
            fact = "no tag, so the newest is pulled" if parts["tag"] is None else "tag `latest` moves"
            fix = "name the version and pin it by digest: repository:version@sha256:…"
            yield Hit(
                at=image.owner, path=image.path, message=f"pinning image: {fact}: {shown(image.reference)}", fix=fix
            )


@rule("image-tag-moving", Severity.WARNING)
def image_tag_moving(world: World) -> Iterator[Hit]:
    """An image has the tag of a branch or a channel, such as `nightly` or `main`, which moves.

    A pod that is rescheduled may start with another build than its neighbours. Pin the version, best by digest.
    """
    for image in _images(world):
        parts = image.parts
        if parts and not parts["digest"] and _moves(parts["tag"] or ""):
            message = f"pinning image: tag moves with a branch or channel: {shown(image.reference)}"
            fix = "name a released version and pin it by digest"
            yield Hit(at=image.owner, path=image.path, message=message, fix=fix)


def _moves(tag: str) -> bool:
    """Whether a tag is a branch or channel; with a date or commit behind it, it names one build."""
    first, *rest = tag.lower().split("-")
    return first in _MOVING and not any(re.fullmatch(r"[0-9a-f]{6,40}", part) for part in rest)


def _released(world: World) -> Iterator[tuple[_Image, re.Match[str]]]:
    """Images with a version as tag and no digest."""
    for image in _images(world):
        parts = image.parts
        tag = (parts["tag"] or "latest") if parts else "latest"
        if parts and not parts["digest"] and tag != "latest" and not _moves(tag):
            yield image, parts


@lru_cache(maxsize=2)
def _pinned_repositories(world: World) -> frozenset[str]:
    found = (image.parts for image in _images(world))
    return frozenset(parts["repository"] for parts in found if parts and parts["digest"])


@rule("image-digest-missing", Severity.INFO)
def image_digest_missing(world: World) -> Iterator[Hit]:
    """An image is named by its tag only; a tag can be pushed again.

    A digest names the bytes, so what was tested is what runs, and admission policies that ask for digests let it pass.
    """
    pinned = _pinned_repositories(world)
    for image, parts in _released(world):
        if parts["repository"] not in pinned:
            message = f"pinning image: no digest: {shown(image.reference)}"
            yield Hit(at=image.owner, path=image.path, message=message, fix="add @sha256:… behind the tag")


@rule("image-digest-here-not-there", Severity.WARNING)
def image_digest_here_not_there(world: World) -> Iterator[Hit]:
    """An image is named by its tag only, while another place pins the same repository by digest.

    The two places drift apart as soon as the tag is pushed again, and one of them was surely forgotten.
    """
    pinned = _pinned_repositories(world)
    for image, parts in _released(world):
        if parts["repository"] in pinned:
            message = (
                f"pinning image: no digest here, but one elsewhere for the same repository: {shown(image.reference)}"
            )
            yield Hit(at=image.owner, path=image.path, message=message, fix="use the same digest in both places")
