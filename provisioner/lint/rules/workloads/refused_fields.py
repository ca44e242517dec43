"""Fields of pods, Jobs and volumes in combinations that the API server refuses.

Source: the API server's validation (`pkg/apis/core/validation` and beside it); the words in quotes are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from zoneinfo import available_timezones

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, look, mapping, whole
from provisioner.lint.world import Object, World

_HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@rule("container-port-twice", Severity.WARNING)
def container_port_twice(world: World) -> Iterator[Hit]:
    """A container declares one port twice.

    The list is merged by number and protocol: server-side apply refuses it with `duplicate entries for key`, `kubectl
    apply` keeps one of both, and the name of the other leads nowhere.
    """
    for pod in world.pods:
        for container in pod.containers:
            seen: set[tuple[int, str]] = set()
            for path, item in items(container.value, "ports"):
                number, protocol = whole(item, "containerPort"), literal(item, "protocol") or "TCP"
                if number is not None and (number, protocol) in seen:
                    message = f"reading ports of {container.name}: declared before: `{number}`"
                    fix = "keep one entry, and name that one where the port is meant"
                    yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix=fix)
                seen.add((number or 0, protocol))


@rule("probe-handlers-refused", Severity.ERROR)
def probe_handlers_refused(world: World) -> Iterator[Hit]:
    """A probe asks in two ways at once, or in none.

    `may not specify more than 1 handler type`, `must specify a handler type`: exactly one of httpGet, tcpSocket, exec
    and grpc.
    """
    for pod in world.pods:
        for container in pod.containers:
            for name in _PROBES:
                probe = mapping(container.value, name)
                given = [handler for handler in _HANDLERS if probe.get(handler) is not None]
                if probe and len(given) != 1:
                    message = f"probing {container.name}: {name} asks by {' and by '.join(given) or 'nothing'}"
                    fix = "keep one of httpGet, tcpSocket, exec, grpc" if given else "add httpGet"
                    yield Hit(at=pod.owner, path=(*container.path, name), message=message, fix=fix)


@rule("environment-source-refused", Severity.ERROR)
def environment_source_refused(world: World) -> Iterator[Hit]:
    """An entry of envFrom names a ConfigMap and a Secret at once, or neither.

    `may not have more than one field specified at a time`: each source is an entry of its own.
    """
    for pod in world.pods:
        for container in pod.containers:
            for path, entry in items(container.value, "envFrom"):
                given = [key for key in ("configMapRef", "secretRef") if look(entry, key) is not None]
                if isinstance(entry, Mapping) and len(given) != 1:
                    sources = " and ".join(given) or "none"
                    message = f"filling variables of {container.name}: an entry takes `{sources}`"
                    yield Hit(at=pod.owner, path=(*container.path, *path), message=message, fix="write one per entry")


@rule("sub-path-refused", Severity.ERROR)
def sub_path_refused(world: World) -> Iterator[Hit]:
    """A mount takes a part of its volume by an absolute path, or by one that leads upwards.

    `must be a relative path`, `must not contain '..'`.
    """
    for pod in world.pods:
        for container in pod.containers:
            for path, entry in items(container.value, "volumeMounts"):
                below = literal(entry, "subPath") or ""
                if below.startswith("/") or ".." in below.split("/"):
                    message = f"mounting into {container.name}: subPath cannot be `{below}`"
                    where = (*container.path, *path, "subPath")
                    yield Hit(at=pod.owner, path=where, message=message, fix="write a path below the volume's top")


@rule("host-network-port-differs", Severity.ERROR)
def host_network_port_differs(world: World) -> Iterator[Hit]:
    """A pod on its node's network maps a port to another one.

    `must match containerPort when hostNetwork is true`: there is nothing between pod and node that could map it.
    """
    for pod in world.pods:
        for container in pod.containers if pod.spec.get("hostNetwork") is True else ():
            for path, entry in items(container.value, "ports"):
                inner, outer = whole(entry, "containerPort"), whole(entry, "hostPort")
                if inner is not None and outer is not None and inner != outer:
                    message = f"opening ports: on the node's network {inner} cannot be port `{outer}`"
                    where = (*container.path, *path, "hostPort")
                    yield Hit(at=pod.owner, path=where, message=message, fix=f"write {inner}, or leave hostPort out")


@rule("affinity-weight-refused", Severity.ERROR)
def affinity_weight_refused(world: World) -> Iterator[Hit]:
    """A preference of an affinity has a weight outside of 1 to 100.

    `must be in the range 1-100`.
    """
    for pod in world.pods:
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
            for path, entry in items(pod.spec, "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"):
                weight = whole(entry, "weight")
                if weight is not None and not 1 <= weight <= 100:
                    message = f"placing pod: a weight goes from 1 to 100, found `{weight}`"
                    yield Hit(at=pod.owner, path=pod.at(*path, "weight"), message=message, fix="write 1 to 100")


def _sizes(world: World) -> Iterator[tuple[Object, FieldPath]]:
    """Where the size of a volume may stand."""
    for claim in world.of_kind("PersistentVolumeClaim"):
        yield claim, ("spec", "resources", "requests", "storage")
    for volume in world.of_kind("PersistentVolume"):
        yield volume, ("spec", "capacity", "storage")
    for owner in world.of_kind("StatefulSet"):
        for path, _ in items(owner.value, "spec", "volumeClaimTemplates"):
            yield owner, (*path, "spec", "resources", "requests", "storage")
    for pod in world.pods:
        for path, _ in items(pod.spec, "volumes"):
            yield pod.owner, pod.at(*path, "emptyDir", "sizeLimit")


@rule("volume-size-malformed", Severity.ERROR)
def volume_size_malformed(world: World) -> Iterator[Hit]:
    """The size of a volume is no Kubernetes quantity, such as `200GB` or `200 Gi`.

    `quantities must match the regular expression`: units are Gi, Mi, Ti (powers of two) or G, M, T.
    """
    for found, path in _sizes(world):
        written = look(found.value, *path)
        if isinstance(written, str) and not has_hole(written) and amount(written) is None:
            message = f"sizing volume: no quantity: {shown(written)}"
            near = written.replace(" ", "").removesuffix("B").removesuffix("b")
            fix = f"did you mean {near}?" if amount(near) is not None else "write such as 200Gi"
            yield Hit(at=found, path=path, message=message, fix=fix)


@rule("local-volume-without-node", Severity.ERROR)
def local_volume_without_node(world: World) -> Iterator[Hit]:
    """A local PersistentVolume does not say on which node it is.

    `Local volume requires node affinity`.
    """
    for found in world.of_kind("PersistentVolume"):
        if look(found.value, "spec", "local") is not None and not mapping(found.value, "spec", "nodeAffinity"):
            message = f"offering volume: a local one needs nodeAffinity: `{found.name}`"
            fix = "add nodeAffinity with kubernetes.io/hostname"
            yield Hit(at=found, path=("spec", "local"), message=message, fix=fix)


def _job_specs(world: World) -> Iterator[tuple[Object, FieldPath]]:
    yield from ((found, ("spec",)) for found in world.of_kind("Job"))
    yield from ((found, ("spec", "jobTemplate", "spec")) for found in world.of_kind("CronJob"))


@rule("job-per-index-refused", Severity.ERROR)
def job_per_index_refused(world: World) -> Iterator[Hit]:
    """A Job counts failures by index and has none.

    `backoffLimitPerIndex` and `maxFailedIndexes` need `completionMode: Indexed`.
    """
    for found, path in _job_specs(world):
        spec = mapping(found.value, *path)
        field = next((key for key in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(key) is not None), None)
        if field and spec.get("completionMode", "NonIndexed") == "NonIndexed":
            message = f"counting failures: {field} needs indexes: `{found.name}`"
            yield Hit(at=found, path=(*path, field), message=message, fix="add completionMode: Indexed")


@rule("cron-time-zone-unknown", Severity.ERROR)
def cron_time_zone_unknown(world: World) -> Iterator[Hit]:
    """A CronJob is in a time zone that does not exist, or names it within the schedule.

    `unknown time zone`; `TZ=` and `CRON_TZ=` in the schedule are refused as well.
    """
    for found in world.of_kind("CronJob"):
        zone, schedule = literal(found.value, "spec", "timeZone"), literal(found.value, "spec", "schedule") or ""
        if zone is not None and _zones() and zone not in _zones():
            message = f"planning: unknown time zone: `{zone}`"
            yield Hit(at=found, path=("spec", "timeZone"), message=message, fix="use a name such as Europe/Berlin")
        if "TZ=" in schedule:
            message = f"planning: the schedule cannot name a time zone: {shown(schedule)}"
            yield Hit(at=found, path=("spec", "schedule"), message=message, fix="move it to `timeZone`")


@cache
def _zones() -> frozenset[str]:
    """The time zones that this machine knows; none where it has no database of them."""
    found = available_timezones()
    return frozenset(found) if len(found) > 1 else frozenset()


@rule("daemon-set-rollout-refused", Severity.ERROR)
def daemon_set_rollout_refused(world: World) -> Iterator[Hit]:
    """A DaemonSet may both add a pod to a node and lack one, or neither.

    `may not be set when maxUnavailable is non-zero`: one of maxSurge and maxUnavailable is 0.
    """
    for found in world.of_kind("DaemonSet"):
        path = ("spec", "updateStrategy", "rollingUpdate")
        surge, lacking = (look(found.value, *path, name) for name in ("maxSurge", "maxUnavailable"))
        missing = 1 if lacking is None else lacking
        if surge is None or has_hole(surge) or has_hole(missing):
            continue
        if (surge not in (0, "0%")) == (missing not in (0, "0%")):
            message = f"rolling out: maxSurge {surge} and maxUnavailable `{missing}` exclude each other"
            yield Hit(at=found, path=path, message=message, fix="set one of both to 0")


@rule("external-name-missing", Severity.ERROR)
def external_name_missing(world: World) -> Iterator[Hit]:
    """A Service of type ExternalName does not say for which name it stands.

    `externalName: Required value`. It is a DNS name, neither an address nor a URL.
    """
    for found in world.of_kind("Service"):
        name = look(found.value, "spec", "externalName")
        if look(found.value, "spec", "type") != "ExternalName":
            continue
        if not name:
            message = f"naming: it stands for no name: `{found.name}`"
            yield Hit(at=found, path=("spec",), message=message, fix="add externalName, or use another type")
        elif isinstance(name, str) and ("/" in name or ":" in name) and not has_hole(name):
            message = f"naming: no DNS name: {shown(name)}"
            yield Hit(at=found, path=("spec", "externalName"), message=message, fix="write the host alone")
