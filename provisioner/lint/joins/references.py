"""Which names the folder offers for each kind that pods refer to, and every such reference. Pure; no rules stand here.

Many objects make others: an ExternalSecret or a Certificate makes a Secret, a kustomization generates ConfigMaps and
Secrets. Their names count as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.pods import every_pod, with_models
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, PodTemplate, World, same_namespace

_MAKERS: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "ExternalSecret": ("Secret", (("spec", "target", "name"), ("metadata", "name"))),
    "ClusterExternalSecret": ("Secret", (("spec", "externalSecretName"), ("metadata", "name"))),
    "SealedSecret": ("Secret", (("spec", "template", "metadata", "name"), ("metadata", "name"))),
    "Certificate": ("Secret", (("spec", "secretName"),)),
    "VaultStaticSecret": ("Secret", (("spec", "destination", "name"),)),
    "VaultDynamicSecret": ("Secret", (("spec", "destination", "name"),)),
    "OnePasswordItem": ("Secret", (("metadata", "name"),)),
    "ProjectSecret": ("Secret", (("metadata", "name"),)),
    "SharedSecret": ("Secret", (("metadata", "name"),)),
    "SecretTransformation": ("Secret", (("metadata", "name"),)),
    "Issuer": ("Secret", (("spec", "acme", "privateKeySecretRef", "name"),)),
    "ClusterIssuer": ("Secret", (("spec", "acme", "privateKeySecretRef", "name"),)),
    "Bundle": ("ConfigMap", (("metadata", "name"),)),
}
_GENERATORS = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}
_ALWAYS = {
    "ConfigMap": frozenset(["kube-root-ca.crt", "openshift-service-ca.crt"]),
    "ServiceAccount": frozenset(["default"]),
    "PriorityClass": frozenset(["system-node-critical", "system-cluster-critical"]),
    "RuntimeClass": frozenset(["nvidia", "nvidia-cdi", "nvidia-legacy"]),
}
"""Names that are there though no manifest makes them: the cluster's own, and those of NVIDIA's container toolkit."""

CLUSTER_WIDE = frozenset(["PriorityClass", "RuntimeClass", "StorageClass", "DeviceClass"])


@dataclass(frozen=True, slots=True)
class Offered:
    """A name of a kind that the folder offers."""

    name: str
    namespace: str | None
    object: Object | None


@dataclass(frozen=True, eq=False)
class Reference:
    """A place where an object names another one. `keys` are entries of it that must exist."""

    owner: Object
    path: FieldPath
    kind: str
    name: str
    key: str | None = None

    @property
    def namespace(self) -> str | None:
        """Where it is looked up; cluster-wide kinds have none."""
        return None if self.kind in CLUSTER_WIDE else self.owner.namespace


@lru_cache(maxsize=2)
def offered(world: World) -> Mapping[str, Mapping[str, Sequence[Offered]]]:
    """Names by kind, with all places that offer them."""
    found: dict[str, dict[str, list[Offered]]] = {}
    for kind, offer in (*_objects(world), *_generated(world)):
        found.setdefault(kind, {}).setdefault(offer.name, []).append(offer)
    return found


_KINDS: tuple[str, ...] = (
    "ConfigMap",
    "Secret",
    "PersistentVolumeClaim",
    "ServiceAccount",
    "PriorityClass",
    "RuntimeClass",
)
_KINDS += ("StorageClass", "DeviceClass", "ResourceClaimTemplate", "ResourceClaim", "Service")


def _objects(world: World) -> Iterator[tuple[str, Offered]]:
    for kind in _KINDS:
        for found in world.of_kind(kind):
            yield kind, Offered(found.name, found.namespace, found)
    for maker, (kind, paths) in _MAKERS.items():
        for found in world.of_kind(maker):
            name = next((name for path in paths if (name := text(found.value, *path))), None)
            if name:
                yield kind, Offered(name, None if maker.startswith("Cluster") else found.namespace, None)


def _generated(world: World) -> Iterator[tuple[str, Offered]]:
    for document in world.documents:
        if document.file.rpartition("/")[2].startswith("kustomization"):
            for part, kind in _GENERATORS.items():
                for _, item in items(document.value, part):
                    name = text(item, "name")
                    if name:
                        yield kind, Offered(name, text(item, "namespace"), None)


def is_named(world: World, kind: str, name: str, namespace: str | None) -> bool:
    """Whether the folder offers it in that namespace, or the cluster has it anyway."""
    if name in _ALWAYS.get(kind, ()):
        return True
    return any(same_namespace(offer.namespace, namespace) for offer in offered(world).get(kind, {}).get(name, ()))


@lru_cache(maxsize=2)
def references(world: World) -> tuple[Reference, ...]:
    """Every reference of pods, Ingresses, scalers and stores that must be met; without optional ones and holes."""
    found = [reference for pod in every_pod(world) for reference in _of_pod(pod)]
    found += [reference for pod in every_pod(world) for reference in _of_containers(pod)]
    found += _of_ingresses(world)
    found += _of_authentications(world)
    found += _of_stores(world)
    found += _of_security_policies(world)
    found += _of_hosts(world)
    return tuple(item for item in found if item.name and not has_hole(item.name))


def _of_ingresses(world: World) -> Iterator[Reference]:
    for ingress in world.of_kind("Ingress"):
        is_made = any(key.startswith(("cert-manager.io/", "kubernetes.io/tls-acme")) for key in ingress.annotations)
        for path, item in () if is_made else items(ingress.value, "spec", "tls"):
            yield Reference(ingress, (*path, "secretName"), "Secret", _name(item, "secretName"))


def _of_authentications(world: World) -> Iterator[Reference]:
    for found in world.of_kind("TriggerAuthentication"):
        for path, item in items(found.value, "spec", "secretTargetRef"):
            yield Reference(found, (*path, "name"), "Secret", _name(item, "name"), text(item, "key"))


_ACCOUNT_OF_STORE = (
    ("vault", "auth", "kubernetes", "serviceAccountRef", "name"),
    ("vault", "auth", "jwt", "kubernetesServiceAccountToken", "serviceAccountRef", "name"),
    ("aws", "auth", "jwt", "serviceAccountRef", "name"),
    ("azurekv", "serviceAccountRef", "name"),
    ("gcpsm", "auth", "workloadIdentity", "serviceAccountRef", "name"),
    ("kubernetes", "auth", "serviceAccount", "name"),
)
"""Where a SecretStore of External Secrets names the account of its own namespace that it signs in with."""


def _of_stores(world: World) -> Iterator[Reference]:
    for found in world.of_kind("SecretStore"):
        for path in _ACCOUNT_OF_STORE:
            place = ("spec", "provider", *path)
            yield Reference(found, place, "ServiceAccount", _name(found.value, *place))


def _of_hosts(world: World) -> Iterator[Reference]:
    """The credentials of bare-metal hosts' controllers, in the host's own namespace."""
    for host in world.of_kind("BareMetalHost"):
        path = ("spec", "bmc", "credentialsName")
        yield Reference(host, path, "Secret", _name(host.value, *path))


def _of_security_policies(world: World) -> Iterator[Reference]:
    """The Secrets of Envoy Gateway's SecurityPolicies in their own namespace."""
    for found in world.of_kind("SecurityPolicy"):
        places = [path for path, _ in items(found.value, "spec", "apiKeyAuth", "credentialRefs")]
        places += [("spec", "basicAuth", "users"), ("spec", "oidc", "clientSecret")]
        for path in places if found.group == "gateway.envoyproxy.io" else ():
            reference = mapping(found.value, *path)
            if reference.get("kind", "Secret") == "Secret" and "namespace" not in reference:
                yield Reference(found, (*path, "name"), "Secret", _name(reference, "name"))


_NAMED_FIELDS = {
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
}
_VOLUME_FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ConfigMap", ("configMap", "name")),
    ("Secret", ("secret", "secretName")),
    ("PersistentVolumeClaim", ("persistentVolumeClaim", "claimName")),
)


def _of_pod(pod: PodTemplate) -> Iterator[Reference]:
    for field, kind in _NAMED_FIELDS.items():
        yield Reference(pod.owner, pod.at(field), kind, _name(pod.spec, field))
    for path, item in items(pod.spec, "imagePullSecrets"):
        yield Reference(pod.owner, pod.at(*path), "Secret", _name(item, "name"))
    for path, item in items(pod.spec, "resourceClaims"):
        for field, kind in (
            ("resourceClaimTemplateName", "ResourceClaimTemplate"),
            ("resourceClaimName", "ResourceClaim"),
        ):
            yield Reference(pod.owner, pod.at(*path, field), kind, _name(item, field))
    for path, item in items(pod.spec, "volumes"):
        yield from _of_volume(pod, path, item)


def _of_volume(pod: PodTemplate, path: FieldPath, item: Any) -> Iterator[Reference]:
    sources = [((*path, "projected", "sources", index), source) for index, source in _sources(item)]
    for place, value in [(path, item), *sources]:
        for kind, fields in _VOLUME_FIELDS:
            names = ("secret", "name") if place != path and kind == "Secret" else fields
            if look(value, fields[0], "optional") is not True:
                name = _name(value, *names)
                keys = [text(entry, "key") for _, entry in items(value, fields[0], "items")]
                for key in keys or [None]:
                    yield Reference(pod.owner, pod.at(*place, *names), kind, name, key)


def _sources(item: Any) -> Iterator[tuple[int, Any]]:
    return ((int(path[-1]), source) for path, source in items(item, "projected", "sources"))


def _of_containers(pod: PodTemplate) -> Iterator[Reference]:
    for container in with_models(pod):
        for path, item in items(container.value, "env"):
            for kind, field in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
                value = mapping(item, "valueFrom", field)
                if value and value.get("optional") is not True:
                    place = (*container.path, *path, "valueFrom", field)
                    yield Reference(pod.owner, place, kind, _name(value, "name"), text(value, "key"))
        for path, item in items(container.value, "envFrom"):
            for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                value = mapping(item, field)
                if value and value.get("optional") is not True:
                    yield Reference(pod.owner, (*container.path, *path, field), kind, _name(value, "name"))


def _name(value: Any, *path: str) -> str:
    return text(value, *path) or ""
