"""Values of workloads and Services that the API server refuses though every schema takes them.

Sources: the validation of the core and apps groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _ports(world: World) -> Iterator[tuple[Object, FieldPath, Any]]:
    """Every port number of containers and Services."""
    for pod in every_pod(world):
        for container in pod.containers:
            for path, item in items(container.value, "ports"):
                yield pod.owner, (*container.path, *path, "containerPort"), look(item, "containerPort")
    for service in world.of_kind("Service"):
        for path, item in items(service.value, "spec", "ports"):
            for field in ("port", "targetPort"):
                yield service, (*path, field), look(item, field)


@rule("port-number-invalid", Severity.ERROR)
def port_number_invalid(world: World) -> Iterator[Hit]:
    """A port number is none: ports go from 1 to 65535.

    The API server answers `must be between 1 and 65535, inclusive`, for containers when the pod is made.
    """
    for owner, path, value in _ports(world):
        if isinstance(value, int) and not isinstance(value, bool) and not 1 <= value <= 65535:
            message = f"opening port: not a port number: {shown(str(value))}"
            yield Hit(at=owner, path=path, message=message, fix="use a number from 1 to 65535")


@rule("node-port-outside-range", Severity.WARNING)
def node_port_outside_range(world: World) -> Iterator[Hit]:
    """A Service asks for a node port outside of 30000 to 32767.

    That is the range of an API server whose `--service-node-port-range` is not set otherwise; others are refused.
    """
    for service in world.of_kind("Service"):
        for path, item in items(service.value, "spec", "ports"):
            port = look(item, "nodePort")
            if isinstance(port, int) and not isinstance(port, bool) and port and not 30000 <= port <= 32767:
                message = f"opening node port: outside of 30000 to 32767: {shown(str(port))}"
                yield Hit(
                    at=service, path=(*path, "nodePort"), message=message, fix="leave nodePort out or choose from it"
                )


@rule("pod-part-name-invalid", Severity.ERROR)
def pod_part_name_invalid(world: World) -> Iterator[Hit]:
    """A container or volume has a name that is no DNS label, which the API server refuses.

    At most 63 lower-case letters, digits and hyphens, beginning and ending with a letter or digit.
    """
    for pod in every_pod(world):
        for part in ("containers", "initContainers", "volumes"):
            for path, item in items(pod.spec, part):
                name = text(item, "name")
                if name and not has_hole(name) and not _LABEL.fullmatch(name):
                    message = f"naming {part[:-1]}: not a DNS label: {shown(name)}"
                    fix = "use lower-case letters, digits and hyphens"
                    yield Hit(at=pod.owner, path=pod.at(*path, "name"), message=message, fix=fix)


_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|labels(\['.+'\])?|annotations(\['.+'\])?)|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs)"
)


@rule("environment-variable-refused", Severity.ERROR)
def environment_variable_refused(world: World) -> Iterator[Hit]:
    """An environment variable has a value and a valueFrom, an impossible name, or a pod field that does not exist.

    The API server refuses the pod: `may not be specified when value is not empty`, or `Unsupported value` for a
    fieldPath such as `status.podip`.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            for path, item in items(container.value, "env"):
                why = _refused_variable(item)
                if why:
                    message = f"setting variable {shown(str(look(item, 'name')))}: {why[0]}"
                    yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=why[1])


def _refused_variable(item: Any) -> tuple[str, str] | None:
    name, field = text(item, "name"), text(item, "valueFrom", "fieldRef", "fieldPath")
    if text(item, "value") and mapping(item, "valueFrom"):
        return "it has a value and a valueFrom", "keep one of them"
    if name is not None and (not name or "=" in name):
        return "not a name of a variable", "use letters, digits and underscores"
    if field and not has_hole(field) and not _FIELDS.fullmatch(field):
        return f"pods have no field {field} for variables", "use one such as metadata.name or status.podIP"
    return None


_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


@rule("secret-lacks-key-of-its-type", Severity.ERROR)
def secret_lacks_key_of_its_type(world: World) -> Iterator[Hit]:
    """A Secret of a type of Kubernetes' own lacks an entry that the type must have, so the API server refuses it.

    A TLS Secret has `tls.crt` and `tls.key`, one for pulling images `.dockerconfigjson`.
    """
    for secret in world.of_kind("Secret"):
        have = {*mapping(secret.value, "data"), *mapping(secret.value, "stringData")}
        missing = [key for key in _KEYS.get(text(secret.value, "type") or "", ()) if key not in have]
        if missing and not secret.group:
            message = f"keeping secret: type {shown(str(secret.value.get('type')))} needs {', '.join(missing)}"
            yield Hit(at=secret, path=("type",), message=message, fix=f"add {', '.join(missing)}, or use type Opaque")


_AT_LEAST_ZERO: tuple[FieldPath, ...] = (
    ("spec", "replicas"),
    ("spec", "minReadySeconds"),
    ("spec", "revisionHistoryLimit"),
    ("spec", "backoffLimit"),
    ("spec", "parallelism"),
    ("spec", "completions"),
    ("spec", "ttlSecondsAfterFinished"),
    ("spec", "template", "spec", "terminationGracePeriodSeconds"),
)


@rule("root-against-non-root", Severity.ERROR)
def root_against_non_root(world: World) -> Iterator[Hit]:
    """A container is to run as root and must not.

    With `runAsNonRoot: true` and `runAsUser: 0` the kubelet refuses the container: "container's runAsUser breaks
    non-root policy" (CreateContainerConfigError). The container's own settings win over the pod's.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            settings = [mapping(container.value, "securityContext"), mapping(pod.spec, "securityContext")]
            user, bound = (
                next((one[name] for one in settings if name in one), None) for name in ("runAsUser", "runAsNonRoot")
            )
            if bound is True and user == 0 and not isinstance(user, bool):
                field = ("securityContext", "runAsUser")
                path = (*container.path, *field) if "runAsUser" in settings[0] else pod.at(*field)
                message = f"starting container {container.name}: runAsNonRoot is true and the user is `0`"
                yield Hit(at=pod.owner, path=path, message=message, fix="name another user, or leave one of both out")


@rule("number-below-zero", Severity.ERROR)
def number_below_zero(world: World) -> Iterator[Hit]:
    """A number of replicas, seconds or attempts is negative: `must be greater than or equal to 0`.

    Such numbers mostly come out of a template's arithmetic.
    """
    for owner in {id(pod.owner): pod.owner for pod in world.pods}.values():
        for path in _AT_LEAST_ZERO:
            value = look(owner.value, *path)
            if isinstance(value, int) and value < 0:
                message = f"reading {dotted(path)}: it is below zero: {shown(str(value))}"
                yield Hit(at=owner, path=path, message=message, fix="use 0 or more")


@rule("budget-amount-malformed", Severity.ERROR)
def budget_amount_malformed(world: World) -> Iterator[Hit]:
    """A PodDisruptionBudget's limit is neither a whole number nor a percentage such as `50%`; it is refused.

    A number in quotes is refused too: `a valid percent string must be a numeric string followed by an ending '%'`. A
    percentage is 100% at most.
    """
    for budget in world.of_kind("PodDisruptionBudget"):
        for field in ("minAvailable", "maxUnavailable"):
            value = look(budget.value, "spec", field)
            is_text = isinstance(value, str) and not has_hole(value)
            is_share = is_text and re.fullmatch(r"[0-9]{1,2}%|100%", value) is not None
            if (is_text and not is_share) or (isinstance(value, int) and value < 0):
                message = f"protecting pods: not a number and not a percentage: {shown(str(value))}"
                yield Hit(at=budget, path=("spec", field), message=message, fix="write 1 or 50%")


@rule("recreate-with-rolling-update", Severity.ERROR)
def recreate_with_rolling_update(world: World) -> Iterator[Hit]:
    """A Deployment of strategy Recreate also has rollingUpdate settings, which the API server refuses.

    An overlay that changes the type must set `rollingUpdate: null`.
    """
    for owner in world.of_kind("Deployment"):
        strategy = mapping(owner.value, "spec", "strategy")
        if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
            message = "rolling out: strategy Recreate takes no rollingUpdate"
            path = ("spec", "strategy", "rollingUpdate")
            yield Hit(at=owner, path=path, message=message, fix="remove rollingUpdate, or use type RollingUpdate")


@rule("admission-operation-unknown", Severity.ERROR)
def admission_operation_unknown(world: World) -> Iterator[Hit]:
    """An admission policy or webhook names an operation that does not exist; they are CREATE, UPDATE, DELETE, CONNECT.

    Operations are upper case; the API server refuses others.
    """
    for policy in world.of_kind("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        for path, item in items(policy.value, "spec", "matchConstraints", "resourceRules"):
            for place, name in items(item, "operations"):
                if isinstance(name, str) and name not in ("CREATE", "UPDATE", "DELETE", "CONNECT", "*"):
                    message = f"matching objects: there is no operation {shown(name)}"
                    yield Hit(at=policy, path=(*path, *place), message=message, fix=f"write {name.upper()}")
