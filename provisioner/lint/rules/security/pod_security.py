"""Pod Security: labels of namespaces, and pods that their namespace's level refuses.

Sources: Kubernetes documentation, "Pod Security Standards" (levels baseline and restricted).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import may_hold_tenants
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, items, look, mapping, text
from provisioner.lint.world import Container, Object, PodTemplate, World

_PREFIX = "pod-security.kubernetes.io/"
_LABELS = ("enforce", "audit", "warn", "enforce-version", "audit-version", "warn-version")
_LEVELS = ("privileged", "baseline", "restricted")
_BASELINE_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_RESTRICTED_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    ]
)


@rule("namespace-without-pod-security", Severity.INFO)
def namespace_without_pod_security(world: World) -> Iterator[Hit]:
    """A namespace does not say which Pod Security level it enforces, so privileged pods are allowed.

    Pod Security admission is built in and off by default. `restricted` fits model servers: they need neither root
    nor the host. `audit` and `warn` labels show beforehand what would be refused.
    """
    for space in world.of_kind("Namespace"):
        if may_hold_tenants(space.name) and f"{_PREFIX}enforce" not in mapping(space.value, "metadata", "labels"):
            message = "isolating namespace: no Pod Security level is enforced"
            fix = f"add label {_PREFIX}enforce: restricted (or baseline)"
            yield Hit(at=space, path=("metadata",), message=message, fix=fix)


@rule("pod-security-label-unknown", Severity.ERROR)
def pod_security_label_unknown(world: World) -> Iterator[Hit]:
    """A namespace has a Pod Security label that does not exist, or a level that does not, so nothing is enforced.

    Labels are free text, so the API server accepts every one; the admission plug-in only knows enforce, audit,
    warn, their versions, and the levels privileged, baseline and restricted.
    """
    for space, place in _labelled(world):
        for key, value in mapping(space.value, *place).items():
            name = key.removeprefix(_PREFIX) if isinstance(key, str) and key.startswith(_PREFIX) else None
            if name is None or isinstance(value, Hole):
                continue
            path: FieldPath = (*place, key)
            if name not in _LABELS:
                fix = f"did you mean `{_PREFIX}{nearest_name(name, _LABELS) or 'enforce'}`?"
                yield Hit(at=space, path=path, message=f"isolating namespace: there is no label {shown(key)}", fix=fix)
            elif "version" not in name and value not in _LEVELS:
                message = f"isolating namespace: there is no level {shown(str(value))}"
                yield Hit(at=space, path=path, message=message, fix=f"use one of: {', '.join(_LEVELS)}")


def _labelled(world: World) -> Iterator[tuple[Object, FieldPath]]:
    """Where the labels of namespaces stand: their own, and those that Argo CD puts on what it makes."""
    yield from ((space, ("metadata", "labels")) for space in world.of_kind("Namespace"))
    managed = ("syncPolicy", "managedNamespaceMetadata", "labels")
    yield from ((app, ("spec", *managed)) for app in world.of_kind("Application"))
    yield from ((app, ("spec", "template", "spec", *managed)) for app in world.of_kind("ApplicationSet"))


def _level(world: World, pod: PodTemplate) -> str | None:
    if pod.namespace is None:
        return None
    space = world.find("Namespace", pod.namespace)
    return text(space.value, "metadata", "labels", f"{_PREFIX}enforce") if space else None


@rule("pod-refused-by-pod-security", Severity.ERROR)
def pod_refused_by_pod_security(world: World) -> Iterator[Hit]:
    """A pod breaks the Pod Security level that its namespace enforces, so it is never created.

    The workload object is accepted; its ReplicaSet or StatefulSet then reports `violates PodSecurity` and stays at zero
    pods.
    """
    for pod in world.pods:
        level = _level(world, pod) if pod.containers else None
        if level not in ("baseline", "restricted"):
            continue
        for path, what in (*_baseline(pod), *(_restricted(pod) if level == "restricted" else ())):
            message = f"creating pod: namespace `{pod.namespace}` enforces {level}, which refuses {what}"
            yield Hit(
                at=pod.owner, path=path, message=message, fix="change the pod, or move it to a namespace that allows it"
            )


def _baseline(pod: PodTemplate) -> Iterator[tuple[FieldPath, str]]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(name) is True:
            yield pod.at(name), shown(name)
    for path, item in items(pod.spec, "volumes"):
        if look(item, "hostPath") is not None:
            yield pod.at(*path), f"hostPath volume {shown(str(look(item, 'name')))}"
    for container in pod.containers:
        context = mapping(container.value, "securityContext")
        if context.get("privileged") is True:
            yield (*container.path, "securityContext", "privileged"), f"privileged container {shown(container.name)}"
        for path, item in items(context, "capabilities", "add"):
            if isinstance(item, str) and item not in _BASELINE_CAPABILITIES:
                yield (*container.path, "securityContext", *path), f"capability {shown(item)}"
        for path, item in items(container.value, "ports"):
            if isinstance(look(item, "hostPort"), int) and look(item, "hostPort") > 0:
                yield (*container.path, *path, "hostPort"), f"host port {shown(str(look(item, 'hostPort')))}"


def _restricted(pod: PodTemplate) -> Iterator[tuple[FieldPath, str]]:
    for path, item in items(pod.spec, "volumes"):
        kinds = {key for key in mapping(item) if key not in ("name", "hostPath")}
        if kinds and not kinds & _RESTRICTED_VOLUMES:
            yield pod.at(*path), f"volume of kind {shown(', '.join(map(str, sorted(map(str, kinds)))))}"
    for container in pod.containers:
        missing = ", ".join(_missing(pod, container))
        if missing:
            yield (*container.path, "securityContext"), f"container {shown(container.name)} without {missing}"


def _missing(pod: PodTemplate, container: Container) -> Iterator[str]:
    own, common = mapping(container.value, "securityContext"), mapping(pod.spec, "securityContext")
    if own.get("allowPrivilegeEscalation") is not False and not _open(own, "allowPrivilegeEscalation"):
        yield "allowPrivilegeEscalation: false"
    if _first("runAsNonRoot", own, common) is not True and not _open(own, "runAsNonRoot"):
        yield "runAsNonRoot: true"
    if _first("runAsUser", own, common) == 0:
        yield "a runAsUser other than 0"
    profile = look(_first("seccompProfile", own, common), "type")
    if profile not in ("RuntimeDefault", "Localhost") and not isinstance(profile, Hole):
        yield "seccompProfile.type: RuntimeDefault"
    if "ALL" not in {str(item) for _, item in items(own, "capabilities", "drop")}:
        yield "capabilities.drop: [ALL]"


def _open(context: Mapping[str, Any], name: str) -> bool:
    return isinstance(context.get(name), Hole)


def _first(name: str, *contexts: Mapping[str, Any]) -> Any:
    return next((context[name] for context in contexts if context.get(name) is not None), None)
