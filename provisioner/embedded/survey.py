"""What a cluster already has, and so what is to be played in it; the definitions that it lacks.

A definition that somebody else installed means that the real thing is there, or soon will be: its part is left alone.
The Gateway API is the exception, since its controllers go by class. Called by `attach` only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from provisioner.domain.errors import NotFoundError, RejectedError, RetryableError
from provisioner.embedded.controllers.api import Api, Json
from provisioner.embedded.controllers.core.kinds import CONFIG_MAP
from provisioner.embedded.controllers.manifests import parse_manifests
from provisioner.embedded.troupe import Role
from provisioner.platform.interface import Kind

DEFINITION: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
OURS: Final = {"app.kubernetes.io/managed-by": "tenantry-embedded"}
_MANAGER: Final = "tenantry-embedded"
_OF_TENANTS: Final = ("argoproj.io", "keda.sh")  # nothing reads these kinds in a control plane cluster
_ROLES: Final = {"management.loft.sh": Role.PLATFORM, "cert-manager.io": Role.CERTIFICATES}
_APPROVAL: Final = {"api-approved.kubernetes.io": "unapproved, a slim definition for playgrounds"}
_DIGEST: Final = "tenantry.io/digest"
_ROOT_CA: Final = "kube-root-ca.crt"
_ESTABLISHED_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
ANSWER_SECONDS: Final = 15.0
"""How long a cluster may take to say what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """`roles` are to be played; `left` says of the others why not; `missing` are definitions by name that are not there
    or, of ours, outdated."""

    roles: frozenset[Role]
    left: Mapping[Role, str]
    missing: Mapping[str, Json]


async def survey(api: Api, *, context: str) -> Survey:
    """What the cluster of a kubeconfig context has. Raises RejectedError when we may not look, RetryableError when
    nobody answers."""
    doing = "looking at what the cluster has"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            present = {item["metadata"]["name"]: item for item in await api.list(DEFINITION)}
            is_managed = await api.get(CONFIG_MAP, _ROOT_CA, namespace="kube-system") is not None
            served = {kind.group for kind in await api.kinds()}
    except RejectedError as error:
        raise RejectedError(
            f"{doing}: {error.message}: `{context}`",
            reason="AccessMissing",
            hint="the how-to on playgrounds has a ClusterRole with all that is needed",
        ) from error
    except (RetryableError, TimeoutError) as error:
        told = error.message if isinstance(error, RetryableError) else f"calling {api.url}: no answer in time"
        raise RetryableError(
            f"{doing}: {told}: `{context}`",
            reason="Unreachable",
            hint="is that the right server, and does it run? With its kubeconfig `kubectl get --raw /readyz` asks it",
        ) from error
    ours = {definition["metadata"]["name"]: definition for definition in _definitions()}
    left: dict[Role, str] = {Role.WORKLOADS: "it has a controller manager"} if is_managed else {}
    foreign = {group for group in _ROLES if _is_foreign(group, present, served)}
    left |= {_ROLES[group]: f"it serves {group} itself" for group in foreign}
    missing = {
        name: definition
        for name, definition in ours.items()
        if definition["spec"]["group"] not in foreign and _is_wanted(definition, present.get(name))
    }
    return Survey(roles=frozenset(Role) - left.keys(), left=left, missing=missing)


def _is_foreign(group: str, present: Mapping[str, Json], served: Collection[str]) -> bool:
    """Whether a group is somebody else's: by definitions that are not ours, or served without any (aggregated)."""
    found = [item["metadata"].get("labels") or {} for item in present.values() if item["spec"]["group"] == group]
    return any(not OURS.items() <= labels.items() for labels in found) or (not found and group in served)


def _is_wanted(definition: Json, present: Json | None) -> bool:
    """Whether a definition is not there, or is ours from another version."""
    if present is None:
        return True
    before = (present["metadata"].get("annotations") or {}).get(_DIGEST)
    return before is not None and before != definition["metadata"]["annotations"][_DIGEST]


def _definitions() -> Iterable[Json]:
    folder = resources.files("provisioner.embedded.apiserver") / "crds"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".yaml") or file.name.removesuffix(".yaml") in _OF_TENANTS:
            continue
        for definition in parse_manifests(file.read_text(), what=file.name):
            digest = hashlib.sha256(json.dumps(definition["spec"], sort_keys=True).encode()).hexdigest()[:16]
            definition["metadata"] |= {"labels": dict(OURS), "annotations": {**_APPROVAL, _DIGEST: digest}}
            yield definition


async def install_definitions(api: Api, found: Survey) -> None:
    """Install what is missing and wait until it is served. Raises RejectedError with the names when we may not."""
    try:
        for definition in found.missing.values():
            await api.apply(DEFINITION, definition, manager=_MANAGER)
    except RejectedError as error:
        raise RejectedError(
            f"installing definitions: {error.message}; missing: {', '.join(sorted(found.missing))}",
            reason="DefinitionsMissing",
            hint="have them installed by somebody who may, or bind the ClusterRole of the how-to on playgrounds",
        ) from error
    waiting = dict(found.missing)
    try:
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            while waiting:
                waiting = {name: entry for name, entry in waiting.items() if not await _is_served(api, entry)}
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise RetryableError(f"installing definitions: not served yet: {', '.join(sorted(waiting))}") from error


async def _is_served(api: Api, definition: Json) -> bool:
    """Whether objects of it can be listed: an API server goes on preparing after it calls a definition established."""
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]["name"]
    kind = Kind(spec["group"], version, names["kind"], names["plural"], namespaced=spec["scope"] == "Namespaced")
    try:
        await api.list(kind)
    except (NotFoundError, RetryableError):
        return False
    except RejectedError:
        return True  # kinds that nobody plays are not ours to look at
    return True
