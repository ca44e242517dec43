"""Names that lead to nothing: ConfigMaps, Secrets, claims, accounts, classes.

A reference to a kind of which the folder holds nothing is none of their business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.joins.references import Offered, Reference, is_named, offered, references
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.joins.slips import Names, meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, look, mapping, text, whole
from provisioner.lint.world import Object, World, same_namespace

_WORDS = {
    "ConfigMap": "ConfigMap",
    "Secret": "Secret",
    "PersistentVolumeClaim": "claim",
    "ServiceAccount": "service account",
    "PriorityClass": "priority class",
    "RuntimeClass": "runtime class",
    "StorageClass": "storage class",
    "DeviceClass": "device class",
    "ResourceClaimTemplate": "claim template",
    "ResourceClaim": "resource claim",
}


def _unmet(world: World, *kinds: str) -> Iterator[Reference]:
    for found in references(world):
        if (
            found.kind in kinds
            and offered(world).get(found.kind)
            and not is_named(world, found.kind, found.name, found.namespace)
        ):
            yield found


def _elsewhere(world: World, found: Reference) -> Offered | None:
    """The same name in another namespace."""
    return next(iter(offered(world).get(found.kind, {}).get(found.name, ())), None)


def _near(world: World, found: Reference) -> str | None:
    """A name of the same namespace that this one was probably meant to be."""
    return _names(world, found.kind, found.namespace).meant_by(found.name)


@lru_cache(maxsize=64)  # the same ones are asked for again and again only where a namespace holds many
def _names(world: World, kind: str, namespace: str | None) -> Names:
    spaces = _spaces(world).get(kind, {})
    chosen = spaces if namespace is None else (namespace, None)
    return Names(name for space in chosen for name in spaces.get(space, ()))


@lru_cache(maxsize=2)
def _spaces(world: World) -> Mapping[str, Mapping[str | None, Sequence[str]]]:
    """The names that are offered, by kind and namespace."""
    found: dict[str, dict[str | None, list[str]]] = {}
    for kind, names in offered(world).items():
        for name, places in names.items():
            for place in places:
                found.setdefault(kind, {}).setdefault(place.namespace, []).append(name)
    return found


def _same_space(world: World, found: Reference) -> bool:
    """Whether the folder holds anything of the kind where the reference is looked up."""
    spaces = _spaces(world).get(found.kind, {})
    return bool(spaces) if found.namespace is None else found.namespace in spaces or None in spaces


def _missing(world: World, *kinds: str) -> Iterator[Hit]:
    for found in _unmet(world, *kinds):
        if _elsewhere(world, found) is None and _same_space(world, found):
            near = _near(world, found)
            message = f"looking up {_WORDS[found.kind]}: there is none of that name: {shown(found.name)}"
            fix = f"did you mean `{near}`?" if near else f"add the {_WORDS[found.kind]} or correct the name"
            yield Hit(at=found.owner, path=found.path, message=message, fix=fix)


@rule("reference-to-nothing", Severity.ERROR)
def reference_to_nothing(world: World) -> Iterator[Hit]:
    """A pod names a ConfigMap, claim, service account, priority class or device claim that is not in the folder.

    The pod is refused, or waits for ever in `ContainerCreating` or `CreateContainerConfigError`. Only kinds of which
    the folder holds others are looked at.
    """
    yield from _missing(
        world,
        "ConfigMap",
        "PersistentVolumeClaim",
        "ServiceAccount",
        "PriorityClass",
        "ResourceClaimTemplate",
        "ResourceClaim",
    )


@lru_cache(maxsize=4096)
def _delivers_secrets(world: World, namespace: str | None) -> bool:
    """Whether the folder holds or makes Secrets of a namespace, other than those of certificates."""
    made = {
        text(found.value, *path)
        for found in world.of_kind("Certificate", "Issuer", "ClusterIssuer")
        for path in (("spec", "secretName"), ("spec", "acme", "privateKeySecretRef", "name"))
    }
    places = offered(world).get("Secret", {})
    others = (offer for name, offers in places.items() if name not in made for offer in offers)
    return any(namespace is None or offer.namespace in (namespace, None) for offer in others)


@rule("secret-missing", Severity.WARNING)
def secret_missing(world: World) -> Iterator[Hit]:
    """A pod names a Secret that the folder does not hold, though it holds (or makes) other Secrets there.

    Secrets are often made by hand, so this may be meant; the pod does not start before it is there. Secrets of
    certificates do not count as others: cert-manager makes them, whoever makes the rest.
    """
    for found in _unmet(world, "Secret"):
        is_lone = _elsewhere(world, found) is None and _near(world, found) is None
        if is_lone and _delivers_secrets(world, found.namespace):
            message = f"looking up Secret: the folder makes others here, but not this one: {shown(found.name)}"
            fix = "add it, or an ExternalSecret that makes it; silence this if somebody makes it by hand"
            yield Hit(at=found.owner, path=found.path, message=message, fix=fix)


@rule("secret-name-misspelt", Severity.ERROR)
def secret_name_misspelt(world: World) -> Iterator[Hit]:
    """A pod names a Secret that the folder does not hold, but one whose name differs by a letter or two.

    The pod stays in `CreateContainerConfigError`.
    """
    for found in _unmet(world, "Secret"):
        near = _near(world, found) if _elsewhere(world, found) is None else None
        if near:
            message = f"looking up Secret: there is none of that name: {shown(found.name)}"
            yield Hit(at=found.owner, path=found.path, message=message, fix=f"did you mean `{near}`?")


@rule("reference-into-other-namespace", Severity.ERROR)
def reference_into_other_namespace(world: World) -> Iterator[Hit]:
    """A pod names a ConfigMap, Secret, claim or service account that exists in another namespace only.

    Pods read these from their own namespace and nowhere else.
    """
    for found in _unmet(
        world, "ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount", "ResourceClaimTemplate"
    ):
        other = _elsewhere(world, found)
        if other is not None and not _is_copied(other.object):
            message = f"looking up {_WORDS[found.kind]}: {shown(found.name)} is in namespace `{other.namespace}` only"
            fix = f"make it in namespace `{found.namespace}` too, or move the pod there"
            yield Hit(at=found.owner, path=found.path, message=message, fix=fix)


def _is_copied(found: Object | None) -> bool:
    """Whether a controller copies it into other namespaces."""
    return found is not None and any("reflect" in key or "replicat" in key for key in found.annotations)


@rule("reference-key-missing", Severity.ERROR)
def reference_key_missing(world: World) -> Iterator[Hit]:
    """A pod takes an entry of a ConfigMap or Secret that has no such entry; the container does not start.

    The container waits in `CreateContainerConfigError: couldn't find key`. References marked optional and objects
    that something else fills are left out.
    """
    for found in references(world):
        places = offered(world).get(found.kind, {}).get(found.name, ()) if found.key else ()
        near = [place.object for place in places if same_namespace(place.namespace, found.namespace)]
        keys = {
            key
            for item in near
            if item
            for part in ("data", "stringData", "binaryData")
            for key in mapping(item.value, part)
        }
        if near and all(near) and found.key not in keys and found.key and keys:
            message = f"looking up key: {_WORDS[found.kind]} `{found.name}` has none of that name: {shown(found.key)}"
            have = ", ".join(sorted(map(str, keys)))
            yield Hit(at=found.owner, path=found.path, message=message, fix=f"use one of its keys: {have}")


@rule("runtime-class-missing", Severity.ERROR)
def runtime_class_missing(world: World) -> Iterator[Hit]:
    """A pod names a runtime class that the folder does not hold, though it holds others.

    The API server refuses the pod: `pod rejected: RuntimeClass not found`. Operators install some classes themselves
    (NVIDIA's, Kata's, vNode's): where one of them is in the folder, its class counts as there.
    """
    for hit in _missing(world, "RuntimeClass"):
        if not _installs(world, str(look(hit.at.value, *hit.path) if isinstance(hit.at, Object) else "")):
            yield hit


_CLASSES = Names(["nvidia", "nvidia-cdi", "nvidia-legacy", "kata", "kata-qemu", "kata-clh", "gvisor", "runsc", "vnode"])


@rule("runtime-class-misspelt", Severity.ERROR)
def runtime_class_misspelt(world: World) -> Iterator[Hit]:
    """A pod names a runtime class that is almost one that operators install.

    The API server refuses the pod: `pod rejected: RuntimeClass "nvida" not found`.
    """
    known = {found.name for found in world.of_kind("RuntimeClass")}
    for pod in every_pod(world):
        name = text(pod.spec, "runtimeClassName")
        near = _CLASSES.meant_by(name) if name and name not in known and name not in _CLASSES.all else None
        if near:
            message = f"choosing runtime: no operator installs a class called {shown(name)}"
            yield Hit(at=pod.owner, path=pod.at("runtimeClassName"), message=message, fix=f"did you mean {near}?")


def _installs(world: World, name: str) -> bool:
    """Whether an Application or chart in the folder installs the runtime class."""
    word = name.split("-")[0]
    charts = [
        repr(mapping(found.value, "spec"))
        for found in world.of_kind("Application", "ArgoCDApplicationTemplate", "HelmRelease")
    ]
    return any(word in chart for chart in charts)


@rule("volume-mode-against-use", Severity.ERROR)
def volume_mode_against_use(world: World) -> Iterator[Hit]:
    """A container mounts a claim that is a raw block device.

    With `volumeMode: Block` there is no filesystem to mount: the kubelet refuses the pod, which has to name it in
    `volumeDevices`.
    """
    for pod in every_pod(world):
        claims = {
            text(item, "name"): world.find("PersistentVolumeClaim", name, namespace=pod.namespace)
            for _, item in items(pod.spec, "volumes")
            if (name := text(item, "persistentVolumeClaim", "claimName"))
        }
        for container in pod.containers:
            for path, mount in items(container.value, "volumeMounts"):
                claim = claims.get(text(mount, "name"))
                if claim is not None and look(claim.value, "spec", "volumeMode") == "Block":
                    message = f"mounting claim: {shown(claim.name)} is a block device, with no filesystem"
                    fix = "use volumeMode: Filesystem, or volumeDevices"
                    yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)


@rule("storage-class-missing", Severity.WARNING)
def storage_class_missing(world: World) -> Iterator[Hit]:
    """A claim names a storage class that the folder does not hold, though it holds others.

    The claim stays Pending unless the provider of the cluster brings the class.
    """
    names = offered(world).get("StorageClass")
    for owner, path, name in _storage_classes(world):
        if names and name not in names:
            message = f"looking up storage class: there is none of that name: {shown(name)}"
            near = nearest_name(name, names)
            fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(sorted(names))}"
            yield Hit(at=owner, path=path, message=message, fix=fix)


def _storage_classes(world: World) -> Iterator[tuple[Object, FieldPath, str]]:
    for claim in world.of_kind("PersistentVolumeClaim"):
        name = text(claim.value, "spec", "storageClassName")
        if name:
            yield claim, ("spec", "storageClassName"), name
    for owner in world.of_kind("StatefulSet"):
        for path, item in items(owner.value, "spec", "volumeClaimTemplates"):
            name = text(item, "spec", "storageClassName")
            if name:
                yield owner, (*path, "spec", "storageClassName"), name


@rule("device-class-missing", Severity.ERROR)
def device_class_missing(world: World) -> Iterator[Hit]:
    """A DRA claim asks for a device class that the folder does not hold, though it holds others.

    Classes that are named like a domain (`gpu.nvidia.com`, `rdma.example.com`) come with their driver and count as
    there, unless the name is nearly that of another one.
    """
    names = offered(world).get("DeviceClass", {})
    for template in world.of_kind("ResourceClaimTemplate", "ResourceClaim"):
        base: tuple[str, ...] = ("spec", "spec") if template.kind == "ResourceClaimTemplate" else ("spec",)
        for path, item in items(template.value, *base, "devices", "requests"):
            asked: list[FieldPath] = [("deviceClassName",), ("exactly", "deviceClassName")]
            asked += [(*place, "deviceClassName") for place, _ in items(item, "firstAvailable")]
            for field in asked:
                name = text(item, *field)
                if name is None or name in names or name in _DRIVER_CLASSES:
                    continue
                near = meant(name, (*names, *_DRIVER_CLASSES))
                if near or (names and "." not in name):
                    message = f"looking up device class: there is none of that name: {shown(name)}"
                    fix = f"did you mean `{near}`?" if near else f"use one of: {', '.join(sorted(names))}"
                    yield Hit(at=template, path=(*path, *field), message=message, fix=fix)


_DRIVER_CLASSES = (
    *("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "compute-domain-daemon.nvidia.com"),
    *("compute-domain-default-channel.nvidia.com", "gpu.amd.com", "gpu.intel.com", "tpu.google.com"),
)
"""Classes that the drivers bring."""


@rule("stateful-set-service-missing", Severity.WARNING)
def stateful_set_service_missing(world: World) -> Iterator[Hit]:
    """A StatefulSet names a governing Service that is not in the folder, though others are there.

    Its pods run but have no DNS names, which engines that span pods and per-replica routes need.
    """
    services = offered(world).get("Service", {})
    for owner in world.of_kind("StatefulSet"):
        name = text(owner.value, "spec", "serviceName")
        if name and services and not is_named(world, "Service", name, owner.namespace):
            near = nearest_name(name, services)
            message = f"naming pods: there is no Service of that name: {shown(name)}"
            fix = f"did you mean `{near}`?" if near else "add a headless Service of that name"
            yield Hit(at=owner, path=("spec", "serviceName"), message=message, fix=fix)


@rule("read-write-once-volume-shared", Severity.ERROR)
def read_write_once_volume_shared(world: World) -> Iterator[Hit]:
    """Pods on several nodes mount one claim that a single node can mount.

    Those are the replicas of a Deployment, as many as its scaler may make, or the pods of a LeaderWorkerSet's group.

    With `ReadWriteOnce` the second replica waits with `Multi-Attach error` as soon as it lands on another node, and a
    roll-out never finishes (vllm-project/production-stack#107); with `ReadWriteOncePod` it never starts.
    """
    for found in references(world):
        count = _sharing(world, found.owner) if found.kind == "PersistentVolumeClaim" else 1
        if count < 2:
            continue
        claim = world.find("PersistentVolumeClaim", found.name, namespace=found.namespace)
        modes = look(claim.value, "spec", "accessModes") if claim else None
        pinned = look(found.owner.value, "spec", "template", "spec", "affinity", "podAffinity")
        if (
            isinstance(modes, list)
            and modes
            and pinned is None
            and not {"ReadWriteMany", "ReadOnlyMany"} & {*map(str, modes)}
        ):
            message = f"mounting claim: {count} pods share it, but only one node can: {shown(found.name)}"
            fix = "use ReadWriteMany (or ReadOnlyMany for weights), a claim per replica (StatefulSet), or one replica"
            yield Hit(at=found.owner, path=found.path, message=message, fix=fix)


def _sharing(world: World, owner: Object) -> int:
    """How many pods may mount a claim that the workload names."""
    if owner.kind == "LeaderWorkerSet":
        return whole(owner.value, "spec", "leaderWorkerTemplate", "size") or 1
    count = replicas(world, owner) if owner.kind == "Deployment" else None
    return count.most if count else 1


@rule("namespace-misspelt", Severity.ERROR)
def namespace_misspelt(world: World) -> Iterator[Hit]:
    """An object is for a namespace that the folder does not make, but one of nearly that name is made.

    It is refused where the other namespace does not exist, or ends up where nobody looks for it.
    """
    made = {space.name for space in world.of_kind("Namespace")}
    used = Counter(found.namespace for found in world.objects if found.namespace)
    for found in world.objects if made else ():
        name = found.namespace
        if not name or name in made or used[name] > 2:
            continue
        near = meant(name, made)
        if near:
            message = f"looking up namespace: the folder makes none of that name: {shown(name)}"
            yield Hit(at=found, path=("metadata", "namespace"), message=message, fix=f"did you mean `{near}`?")


@rule("claim-incomplete", Severity.ERROR)
def claim_incomplete(world: World) -> Iterator[Hit]:
    """A volume claim has no access mode or no size, so the API server refuses it.

    The API server answers `spec.accessModes: Required value` or `spec.resources[storage]: Required value`.
    """
    claims: list[tuple[Object, FieldPath, Any]] = [
        (claim, (), claim.value) for claim in world.of_kind("PersistentVolumeClaim")
    ]
    for owner in world.of_kind("StatefulSet"):
        claims += [(owner, path, item) for path, item in items(owner.value, "spec", "volumeClaimTemplates")]
    for at, path, value in claims:
        spec = mapping(value, "spec")
        lacks = "accessModes" if not spec.get("accessModes") else "resources.requests.storage"
        if spec and (lacks == "accessModes" or look(spec, "resources", "requests", "storage") is None):
            message = f"claiming volume: the claim has no {lacks}"
            yield Hit(at=at, path=(*path, "spec"), message=message, fix=f"set spec.{lacks}")
