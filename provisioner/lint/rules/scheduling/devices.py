"""Devices that pods claim: requests of DRA claims that do not exist, MIG profiles that no GPU has.

Sources: the API server's validation of `resource.k8s.io`, and NVIDIA's MIG user guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, mapping
from provisioner.lint.world import Object, PodTemplate, World

_SPECS: Mapping[str, FieldPath] = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}
_MIG = "nvidia.com/mig-"
_PROFILE = re.compile(r"([0-9]+)g\.[0-9]+gb([.-][a-z.+-]+)?")
_SLICES = ("1", "2", "3", "4", "7")
"""Into how many compute slices a GPU can be cut."""


def _claims(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    """Claims and templates of claims, and the devices that each asks for."""
    for kind, spec in _SPECS.items():
        for found in world.of_kind(kind):
            yield found, (*spec, "devices"), mapping(found.value, *spec, "devices")


def _requests(devices: Mapping[str, Any]) -> Sequence[str] | None:
    """The names of the requests, and of their alternatives as `request/alternative`; None where one is not known."""
    names = []
    for _, request in items(devices, "requests"):
        name = literal(request, "name")
        if name is None:
            return None
        names += [name, *(f"{name}/{literal(one, 'name')}" for _, one in items(request, "firstAvailable"))]
    return names


@rule("device-request-unknown", Severity.ERROR)
def device_request_unknown(world: World) -> Iterator[Hit]:
    """A container or a constraint names a request for devices that its claim does not have.

    The API server refuses such a claim, and the kubelet does not start such a container.
    """
    for found, path, devices in _claims(world):
        names = _requests(devices)
        for part in ("constraints", "config"):
            for place, entry in items(devices, part) if names else ():
                for inner, name in items(entry, "requests"):
                    if isinstance(name, str) and not has_hole(name) and name not in (names or ()):
                        where = (*path, *place, *inner)
                        yield _unknown(found, where, name, names or ())
    for pod in world.pods:
        for where, name, names in _of_containers(world, pod):
            if name not in names:
                yield _unknown(pod.owner, where, name, names)


def _unknown(at: Object, path: FieldPath, name: str, names: Sequence[str]) -> Hit:
    near = nearest_name(name, names)
    message = f"claiming devices: the claim has no request {shown(name)}"
    fix = f"did you mean {near}?" if near else f"it has: {', '.join(names)}"
    return Hit(at=at, path=path, message=message, fix=fix)


def _of_containers(world: World, pod: PodTemplate) -> Iterator[tuple[FieldPath, str, Sequence[str]]]:
    """The requests that containers name, and those that their claims have."""
    claims = {literal(claim, "name"): claim for _, claim in items(pod.spec, "resourceClaims")}
    for container in pod.containers if claims else ():
        for path, entry in items(container.value, "resources", "claims"):
            wanted, claim = literal(entry, "request"), claims.get(literal(entry, "name"), {})
            for kind in _SPECS if wanted else ():
                field = f"{kind[0].lower()}{kind[1:]}Name"
                named = literal(claim, field)
                found = world.find(kind, named, namespace=pod.namespace) if named else None
                names = _requests(mapping(found.value, *_SPECS[kind], "devices")) if found else None
                if wanted and names:
                    yield (*container.path, *path, "request"), wanted, names


@rule("device-claim-refused", Severity.ERROR)
def device_claim_refused(world: World) -> Iterator[Hit]:
    """A claim has two requests of one name, a count that cannot be, or an attribute without its domain.

    The API server refuses it. An attribute is written with the driver's domain, such as `gpu.nvidia.com/productName` or
    `resource.kubernetes.io/pcieRoot`.
    """
    for found, path, devices in _claims(world):
        seen = set()
        for place, request in items(devices, "requests"):
            name = literal(request, "name")
            if name is not None and name in seen:
                message = f"claiming devices: two requests have this name: `{name}`"
                yield Hit(at=found, path=(*path, *place, "name"), message=message, fix="give each a name of its own")
            seen.add(name)
            yield from _bad_count(found, (*path, *place, "exactly"), mapping(request, "exactly"))
        for place, entry in items(devices, "constraints"):
            attribute = literal(entry, "matchAttribute")
            if attribute is not None and "/" not in attribute:
                message = f"claiming devices: the attribute has no domain: `{attribute}`"
                fix = f"write such as `gpu.nvidia.com/{attribute}`"
                yield Hit(at=found, path=(*path, *place, "matchAttribute"), message=message, fix=fix)


def _bad_count(at: Object, path: FieldPath, request: Mapping[str, Any]) -> Iterator[Hit]:
    mode = literal(request, "allocationMode")
    if mode is not None and mode not in ("All", "ExactCount"):
        message = f"claiming devices: there is no allocationMode `{mode}`"
        yield Hit(at=at, path=(*path, "allocationMode"), message=message, fix="write ExactCount or All")
    elif mode == "All" and request.get("count"):
        message = f"claiming devices: all of them are claimed, and a count is given: `{request['count']}`"
        yield Hit(at=at, path=(*path, "count"), message=message, fix="remove count, or allocationMode")


@rule("device-claim-is-template", Severity.WARNING)
def device_claim_is_template(world: World) -> Iterator[Hit]:
    """A pod names a ResourceClaim, and what the folder holds under that name is a ResourceClaimTemplate.

    A template is named by `resourceClaimTemplateName`, and each pod gets a claim of its own. A claim of that name would
    be shared by all replicas, and where there is none the pods stay Pending.
    """
    for pod in world.pods:
        for path, claim in items(pod.spec, "resourceClaims"):
            name = literal(claim, "resourceClaimName")
            is_claim = name and world.find("ResourceClaim", name, namespace=pod.namespace)
            if name and not is_claim and world.find("ResourceClaimTemplate", name, namespace=pod.namespace):
                message = f"claiming devices: the folder has a template of this name, and no claim: `{name}`"
                fix = f"write resourceClaimTemplateName: {name}"
                yield Hit(at=pod.owner, path=pod.at(*path, "resourceClaimName"), message=message, fix=fix)


@rule("device-claim-shared", Severity.WARNING)
def device_claim_shared(world: World) -> Iterator[Hit]:
    """All replicas of a workload share one ResourceClaim, and with it the same devices.

    `resourceClaimName` names one claim for all pods: they run on the one node that has its devices, and each replica
    uses the GPU of the others. By `resourceClaimTemplateName` every pod gets a claim of its own.
    """
    for pod in world.pods:
        count = replicas(world, pod.owner)
        for path, claim in items(pod.spec, "resourceClaims") if count and count.most > 1 else ():
            name = literal(claim, "resourceClaimName")
            if name and not world.find("ResourceClaimTemplate", name, namespace=pod.namespace):
                message = f"claiming devices: up to {count.most if count else 0} pods share one claim: `{name}`"
                fix = "make a ResourceClaimTemplate of it, and name that by resourceClaimTemplateName"
                yield Hit(at=pod.owner, path=pod.at(*path, "resourceClaimName"), message=message, fix=fix)


@rule("mig-profile-unknown", Severity.ERROR)
def mig_profile_unknown(world: World) -> Iterator[Hit]:
    """A container asks for a MIG profile that no GPU can be cut into.

    A profile is `<slices>g.<memory>gb`, of 1, 2, 3, 4 or 7 slices: `nvidia.com/mig-1g.10gb`. No node announces anything
    else, and the pod stays Pending.
    """
    for pod in world.pods:
        for container in pod.containers:
            for part in ("limits", "requests"):
                for name in mapping(container.value, "resources", part):
                    profile = name.removeprefix(_MIG) if isinstance(name, str) and name.startswith(_MIG) else None
                    if profile is None or has_hole(profile):
                        continue
                    form = _PROFILE.fullmatch(profile)
                    if form is None or form[1] not in _SLICES:
                        is_short = _PROFILE.fullmatch(f"{profile}b") is not None
                        fix = f"did you mean {profile}b?" if is_short else "write such as 1g.10gb"
                        message = f"placing pod: no GPU has this MIG profile: `{profile}`"
                        path = (*container.path, "resources", part, name)
                        yield Hit(at=pod.owner, path=path, message=message, fix=fix)
