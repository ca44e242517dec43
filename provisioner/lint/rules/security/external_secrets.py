"""ExternalSecrets: stores that are not there, and Secrets that will lack what pods take from them.

Sources: External Secrets Operator, its API reference and the checks of its webhook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from provisioner.catalog.fields import shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import every_pod, with_models
from provisioner.lint.joins.schedule import is_duration
from provisioner.lint.joins.slips import meant
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World, same_namespace

_GROUP = "external-secrets.io"
_AWS = ("SecretsManager", "ParameterStore")
_HOLE = re.compile(r"\{\{-?\s*\.(\w+)\s*(?:\|[^}]*)?-?\}\}")
"""An entry that a template prints; `index . "a-b"` and the like are left alone."""
_WORDS = {
    ("target", "creationPolicy"): ("Owner", "Orphan", "Merge", "None"),
    ("target", "deletionPolicy"): ("Delete", "Merge", "Retain"),
    ("secretStoreRef", "kind"): ("SecretStore", "ClusterSecretStore"),
    ("refreshPolicy",): ("CreatedOnce", "Periodic", "OnChange"),
}


def _secrets(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("ExternalSecret") if found.group == _GROUP)


@rule("external-secret-refused", Severity.ERROR)
def external_secret_refused(world: World) -> Iterator[Hit]:
    """An ExternalSecret takes nothing from its store, or has a word or an interval that does not exist.

    Its webhook wants `data` or `dataFrom`; policies and kinds are fixed words, and `refreshInterval` is a duration of
    Go's, such as `1h`. The API server refuses anything else.
    """
    for found in _secrets(world):
        spec = mapping(found.value, "spec")
        if spec and not spec.get("data") and not spec.get("dataFrom"):
            message = f"fetching secret: neither `data` nor `dataFrom` says what: `{found.name}`"
            yield Hit(at=found, path=("spec",), message=message, fix="add `data` or `dataFrom`")
        for path, words in _WORDS.items():
            word = literal(spec, *path)
            if word is not None and word not in words:
                message = f"fetching secret: {path[-1]} cannot be `{word}`"
                yield Hit(at=found, path=("spec", *path), message=message, fix=f"write one of: {', '.join(words)}")
        for place, entry in items(found.value, "spec", "data"):
            if isinstance(look(entry, "remoteRef"), Mapping) and not look(entry, "remoteRef", "key"):
                message = f"fetching secret: an entry says no key of the store: {shown(found.name)}"
                yield Hit(at=found, path=(*place, "remoteRef"), message=message, fix="add `key`")
        interval = literal(spec, "refreshInterval")
        if interval is not None and not is_duration(interval):
            message = f"fetching secret: the interval is no duration: {shown(interval)}"
            yield Hit(at=found, path=("spec", "refreshInterval"), message=message, fix="write such as `1h` or `15m`")


@rule("secret-store-refused", Severity.ERROR)
def secret_store_refused(world: World) -> Iterator[Hit]:
    """A SecretStore has several providers or none, or a version of Vault's engine or a service of AWS that is none.

    The API server refuses it: `provider` holds exactly one, Vault's `version` is v1 or v2, and the `service` of AWS is
    SecretsManager or ParameterStore.
    """
    for found in world.of_kind("SecretStore", "ClusterSecretStore"):
        if found.group != _GROUP or not isinstance(look(found.value, "spec", "provider"), Mapping):
            continue
        names = sorted(map(str, mapping(found.value, "spec", "provider")))
        if len(names) != 1:
            message = f"fetching secrets: a store has exactly one provider: {shown(', '.join(names) or 'none')}"
            yield Hit(at=found, path=("spec", "provider"), message=message, fix="make a store for each provider")
        version = literal(found.value, "spec", "provider", "vault", "version")
        if version is not None and version not in ("v1", "v2"):
            message = f"fetching secrets: Vault's engine has no version {shown(version)}"
            path = ("spec", "provider", "vault", "version")
            yield Hit(at=found, path=path, message=message, fix="write v1 or v2")
        service = literal(found.value, "spec", "provider", "aws", "service")
        if service is not None and service not in _AWS:
            near = nearest_name(service, _AWS)
            message = f"fetching secrets: AWS has no such service: {shown(service)}"
            fix = f"did you mean {near}?" if near else f"write {' or '.join(_AWS)}"
            yield Hit(at=found, path=("spec", "provider", "aws", "service"), message=message, fix=fix)


@rule("external-secret-store-unknown", Severity.ERROR)
def external_secret_store_unknown(world: World) -> Iterator[Hit]:
    """An ExternalSecret names a store that is of the other kind, in another namespace, or spelt differently.

    A SecretStore, which is the kind where none is named, serves its own namespace only; a ClusterSecretStore all of
    them. The Secret is never made, and pods that need it wait. Stores that the folder does not show are left alone.
    """
    for found in _secrets(world):
        name = literal(found.value, "spec", "secretStoreRef", "name")
        kind = look(found.value, "spec", "secretStoreRef", "kind") or "SecretStore"
        if name is None or kind not in ("SecretStore", "ClusterSecretStore"):
            continue
        space = found.namespace if kind == "SecretStore" else None
        names = [one.name for one in world.of_kind(kind) if space is None or same_namespace(one.namespace, space)]
        other = "ClusterSecretStore" if kind == "SecretStore" else "SecretStore"
        is_other = world.find(other, name, namespace=found.namespace if other == "SecretStore" else None) is not None
        near = meant(name, names)
        if name not in names and (near or is_other or world.find(kind, name)):
            fix = f"did you mean {near}?" if near else "make it a ClusterSecretStore, or put a SecretStore here"
            message = f"fetching secret: no {kind} of this name serves its namespace: `{name}`"
            fix = f"write `kind: {other}`" if is_other else fix
            yield Hit(at=found, path=("spec", "secretStoreRef"), message=message, fix=fix)


@lru_cache(maxsize=2)
def _made(world: World) -> Mapping[tuple[str | None, str], frozenset[str]]:
    """The entries of the Secrets that ExternalSecrets make alone, by namespace and name, as far as they are known."""
    found: dict[tuple[str | None, str], frozenset[str]] = {}
    for one in _secrets(world):
        target = mapping(one.value, "spec", "target")
        keys = [text(entry, "secretKey") for _, entry in items(one.value, "spec", "data")]
        is_alone = not look(one.value, "spec", "dataFrom") and target.get("creationPolicy", "Owner") == "Owner"
        name = text(target, "name") or one.name
        if keys and None not in keys and is_alone and not target.get("template") and not has_hole(name):
            found[one.namespace, name] = frozenset(key for key in keys if key)
    return found


@rule("external-secret-lacks-key", Severity.ERROR)
def external_secret_lacks_key(world: World) -> Iterator[Hit]:
    """A pod takes an entry of a Secret that the ExternalSecret which makes it does not put in.

    The container is not started: `couldn't find key … in Secret`. The names of the entries are `data[].secretKey`.
    """
    made = _made(world) if world.has("ExternalSecret") else {}
    for pod in every_pod(world) if made else ():
        for path, volume in items(pod.spec, "volumes"):
            name = literal(volume, "secret", "secretName")
            keys = made.get((pod.namespace, name)) if name else None
            for inner, item in items(volume, "secret", "items") if keys else ():
                key = literal(item, "key")
                if keys and key and key not in keys and look(volume, "secret", "optional") is not True:
                    message = f"reading Secret {name}: its ExternalSecret puts in no entry {shown(key)}"
                    fix = f"it has: {', '.join(sorted(keys))}"
                    yield Hit(at=pod.owner, path=(*pod.at(*path), *inner, "key"), message=message, fix=fix)
        for container in with_models(pod):
            for path, entry in items(container.value, "env"):
                reference = mapping(entry, "valueFrom", "secretKeyRef")
                name, key = literal(reference, "name"), literal(reference, "key")
                keys = made.get((pod.namespace, name)) if name else None
                if keys and key and key not in keys and reference.get("optional") is not True:
                    where = (*container.path, *path, "valueFrom", "secretKeyRef", "key")
                    message = f"reading Secret {name}: its ExternalSecret puts in no entry {shown(key)}"
                    yield Hit(at=pod.owner, path=where, message=message, fix=f"it has: {', '.join(sorted(keys))}")


@rule("external-secret-template-unknown", Severity.ERROR)
def external_secret_template_unknown(world: World) -> Iterator[Hit]:
    """The template of an ExternalSecret prints an entry that it does not fetch.

    The names are those of `data[].secretKey`. The template ends with `map has no entry for key`, and the Secret is
    never made. Said where everything that is fetched is named; what `dataFrom` brings is not.
    """
    for found in _secrets(world):
        keys = {literal(entry, "secretKey") for _, entry in items(found.value, "spec", "data")}
        if not keys or None in keys or look(found.value, "spec", "dataFrom"):
            continue
        path = ("spec", "target", "template", "data")
        for entry, written in mapping(found.value, *path).items():
            for name in _HOLE.findall(written) if isinstance(written, str) else ():
                if name not in keys:
                    near = nearest_name(name, [key for key in keys if key])
                    message = f"making secret: it fetches nothing of this name: `{name}`"
                    fix = f"did you mean `{near}`?" if near else "fetch it under `data`"
                    yield Hit(at=found, path=(*path, entry), message=message, fix=fix)


_PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


@rule("pull-secret-of-other-type", Severity.ERROR)
def pull_secret_of_other_type(world: World) -> Iterator[Hit]:
    """A pod pulls its images with a Secret that is not of the type for it.

    The kubelet reads `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg` and passes over all others: images
    of a private registry end in `ImagePullBackOff`. An ExternalSecret makes an `Opaque` one unless its
    `target.template.type` says otherwise.
    """
    made = {}
    for one in _secrets(world):
        name = literal(one.value, "spec", "target", "name") or one.name
        is_sure = look(one.value, "spec", "target", "creationPolicy") in (None, "Owner")
        kind = look(one.value, "spec", "target", "template", "type") or "Opaque"
        if is_sure and not look(one.value, "spec", "dataFrom"):
            made[one.namespace, name] = kind
    for one in world.of_kind("Secret"):
        made[one.namespace, one.name] = one.value.get("type") or "Opaque"
    for pod in every_pod(world) if made else ():
        for path, item in items(pod.spec, "imagePullSecrets"):
            kind = made.get((pod.namespace, literal(item, "name") or ""))
            if isinstance(kind, str) and not has_hole(kind) and kind not in _PULL_TYPES:
                message = f"pulling images: Secret `{literal(item, 'name')}` is of another type: `{kind}`"
                fix = f"make it of type {_PULL_TYPES[0]}, with the entry .dockerconfigjson"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)
