"""Credentials that stand where everybody can read them, and Secrets that say something else than meant.

Names alone are a guess and give warnings; forms that only credentials have give errors.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.credentials import PRIVATE_KEY, is_secret_name, known_form, looks_secret
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, items, mapping, text, texts
from provisioner.lint.world import Object, World


def _literals(world: World) -> Iterator[tuple[Object, FieldPath, str, str]]:
    """Every variable with a literal value: owner, path, name, value."""
    for pod in every_pod(world):
        for container in pod.containers:
            for path, item in items(container.value, "env"):
                name, value = text(item, "name"), text(item, "value")
                if name and value:
                    yield pod.owner, (*container.path, *path, "value"), name, value


def _config(world: World) -> Iterator[tuple[Object, FieldPath, str, str]]:
    for found in world.of_kind("ConfigMap"):
        for key, value in mapping(found.value, "data").items():
            if isinstance(key, str) and isinstance(value, str) and not isinstance(value, Hole):
                yield found, ("data", key), key, value


@rule("credential-in-manifest", Severity.ERROR)
def credential_in_manifest(world: World) -> Iterator[Hit]:
    """A manifest holds what has the form of a real credential, in a variable, a flag or a ConfigMap.

    Everybody who may read pods, ConfigMaps or the repository has it, and it stays in the history. Revoke it, and hand
    the new one in through a Secret.
    """
    for owner, path, _, value in (*_literals(world), *_config(world)):
        what = known_form(value)
        if what:
            yield _leak(owner, path, what)
    for pod in every_pod(world):
        for container in pod.containers:
            for part in ("command", "args"):
                for path, item in items(container.value, part):
                    what = known_form(item) if isinstance(item, str) else None
                    if what:
                        yield _leak(pod.owner, (*container.path, *path), what)


@rule("credential-in-secret-manifest", Severity.WARNING)
def credential_in_secret_manifest(world: World) -> Iterator[Hit]:
    """The manifest of a Secret holds what has the form of a real credential.

    base64 hides nothing: whoever may read the repository has it, and it stays in the history. An ExternalSecret, a
    SealedSecret or SOPS keeps the value elsewhere. Private keys are left alone: charts make them for webhooks.
    """
    for found, part, key, value in _contents(world):
        what = known_form(value)
        if what and what != PRIVATE_KEY:
            message = f"keeping secret: this looks like {what}, committed with the manifest: `{key}`"
            fix = "revoke it, and take the new one from an external store or an encrypted file"
            yield Hit(at=found, path=(part, key), message=message, fix=fix)


def _contents(world: World) -> Iterator[tuple[Object, str, str, str]]:
    """Every entry of a Secret in plain text: the Secret, the field, the key, the text."""
    for found, key, _, decoded in _data(world):
        if decoded:
            yield found, "data", key, decoded.decode("utf-8", "replace")
    for found in world.of_kind("Secret"):
        for key, value in texts(found.value, "stringData").items():
            yield found, "stringData", key, value


def _leak(owner: Object, path: FieldPath, what: str) -> Hit:
    fix = "revoke it, keep the new one in a Secret (or an external store) and refer to it by secretKeyRef"
    return Hit(at=owner, path=path, message=f"keeping secret: this looks like {what}, in plain text", fix=fix)


@rule("secret-as-literal-variable", Severity.WARNING)
def secret_as_literal_variable(world: World) -> Iterator[Hit]:
    """An environment variable that is named like a secret has its value in the manifest.

    Whoever may read the pod or the repository reads it. The value belongs into a Secret.
    """
    for owner, path, name, value in _literals(world):
        if looks_secret(name, value) and not known_form(value):
            message = f"keeping secret: variable `{name}` has its value in plain text"
            fix = "use valueFrom.secretKeyRef"
            yield Hit(at=owner, path=path, message=message, fix=fix)


@rule("secret-in-config-map", Severity.WARNING)
def secret_in_config_map(world: World) -> Iterator[Hit]:
    """A ConfigMap has a key that is named like a secret, or a URL with a password.

    ConfigMaps are not encrypted at rest, are readable for most roles and show up in diffs.
    """
    for owner, path, name, value in _config(world):
        if looks_secret(name, value) and not known_form(value):
            message = f"keeping secret: key `{name}` of a ConfigMap holds one in plain text"
            yield Hit(at=owner, path=path, message=message, fix="move it to a Secret")


def _data(world: World) -> Iterator[tuple[Object, str, Any, bytes | None]]:
    """Every entry of a Secret's `data` and what it decodes to."""
    for found in world.of_kind("Secret"):
        if found.group:
            continue
        for key, value in mapping(found.value, "data").items():
            if isinstance(value, str) and not has_hole(value):
                yield found, str(key), value, _decoded(value)


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


@rule("secret-not-base64", Severity.ERROR)
def secret_not_base64(world: World) -> Iterator[Hit]:
    """An entry of a Secret's `data` is not base64, so the API server refuses the Secret.

    `data` takes base64, `stringData` plain text.
    """
    for found, key, _, decoded in _data(world):
        if decoded is None:
            message = f"decoding secret: the value of `{key}` is not base64"
            fix = "move plain text to stringData, or encode it"
            yield Hit(at=found, path=("data", key), message=message, fix=fix)


@rule("secret-ends-with-newline", Severity.WARNING)
def secret_ends_with_newline(world: World) -> Iterator[Hit]:
    """A token or password in a Secret decodes to a line with a newline at its end.

    `echo value | base64` encodes the newline too; servers then refuse the token, or the HTTP client refuses the
    header. `printf %s value | base64` does not.
    """
    for found, key, _, decoded in _data(world):
        if decoded and decoded.endswith(b"\n") and decoded.count(b"\n") == 1 and is_secret_name(key):
            message = f"decoding secret: `{key}` ends with a newline"
            fix = "encode it without the newline: printf %s value | base64"
            yield Hit(at=found, path=("data", key), message=message, fix=fix)


@rule("secret-key-malformed", Severity.ERROR)
def secret_key_malformed(world: World) -> Iterator[Hit]:
    """A key of a Secret or ConfigMap has characters that the API server refuses (allowed: letters, digits, - _ .).

    Keys become file names and variables. A path with a slash is refused; `items` of the volume can give an entry a
    path.
    """
    for found in world.of_kind("Secret", "ConfigMap"):
        for part in ("data", "stringData", "binaryData"):
            for key in _bad_keys(mapping(found.value, part)):
                message = f"naming key: characters other than letters, digits, `-`, `_` and `.`: `{key}`"
                yield Hit(at=found, path=(part, key), message=message, fix="rename the key")


def _bad_keys(data: Mapping[str, Any]) -> Iterator[str]:
    for key in data:
        if isinstance(key, str) and not has_hole(key) and not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
            yield key


_DOCKER = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}


@rule("secret-docker-config-malformed", Severity.ERROR)
def secret_docker_config_malformed(world: World) -> Iterator[Hit]:
    """A Secret for a registry holds no JSON object.

    The API server refuses it (`<secret contents redacted>: invalid character`).
    """
    for secret in world.of_kind("Secret"):
        key = _DOCKER.get(str(secret.value.get("type")))
        for part in ("stringData", "data") if key else ():
            written = mapping(secret.value, part).get(key or "")
            if (
                isinstance(written, str)
                and not has_hole(written)
                and not _is_object(written, is_encoded=part == "data")
            ):
                message = f"reading registry's key: no JSON object: `{key}`"
                fix = 'write `{"auths": {"<registry>": {"auth": "<base64 of user:password>"}}}`'
                yield Hit(at=secret, path=(part, key or ""), message=message, fix=fix)


def _is_object(written: str, *, is_encoded: bool) -> bool:
    """Whether a text is a JSON object; what is no base64 is another rule's business."""
    try:
        content = base64.b64decode(written, validate=True) if is_encoded else written.encode()
    except ValueError:
        return True
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False
