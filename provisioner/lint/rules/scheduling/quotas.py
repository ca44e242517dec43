"""ResourceQuotas and LimitRanges: what never binds, what is refused, what the workloads do not fit in.

Sources: Kubernetes documentation, "Resource Quotas" and "Limit Ranges", and the validation of both kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pods import are_together
from provisioner.lint.joins.quantities import (
    accelerators,
    amount,
    asked,
    is_accelerator,
    is_extended,
    is_quantity,
    limited,
    plain,
    pod_total,
)
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, look, mapping, text, whole
from provisioner.lint.world import Container, Object, PodTemplate, World

_PLAIN_KEYS = (
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
)
_SCOPES: tuple[str, ...] = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_SCOPES += ("VolumeAttributesClass",)
_CORE = frozenset(
    [
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ]
)


def _hard(world: World) -> Iterator[tuple[Object, str, Any]]:
    for quota in world.of_kind("ResourceQuota"):
        if not quota.group:
            for key, value in mapping(quota.value, "spec", "hard").items():
                if isinstance(key, str) and not has_hole(key):
                    yield quota, key, value


@rule("quota-key-unknown", Severity.ERROR)
def quota_key_unknown(world: World) -> Iterator[Hit]:
    """A ResourceQuota limits something that no quota knows, so the API server refuses it.

    Keys without a slash must be among the standard ones: `requests.cpu`, `limits.memory`, `pods`, `services` and so on.
    """
    for quota, key, _ in _hard(world):
        if "/" not in key and key not in _PLAIN_KEYS and not re.fullmatch(r"(requests\.)?hugepages-\w+", key):
            near = nearest_name(key, _PLAIN_KEYS)
            fix = (
                f"did you mean `{near}`?"
                if near
                else "use a standard key, count/<resource>.<group> or requests.<resource>"
            )
            message = f"limiting namespace: no quota knows the key {shown(key)}"
            yield Hit(at=quota, path=("spec", "hard", key), message=message, fix=fix)


@rule("quota-of-gpus-never-binds", Severity.ERROR)
def quota_of_gpus_never_binds(world: World) -> Iterator[Hit]:
    """A ResourceQuota limits GPUs by a key that nothing is counted under.

    For extended resources only `requests.<resource>` counts: `requests.nvidia.com/gpu`. Neither `nvidia.com/gpu` nor
    `limits.nvidia.com/gpu` limits anything. Source: Kubernetes documentation, "Resource quota for extended resources".
    """
    for quota, key, _ in _hard(world):
        name = key.removeprefix("limits.").removeprefix("requests.")
        if not key.startswith(("requests.", "count/")) and is_extended(name) and not _is_class_key(key):
            message = f"limiting namespace: nothing is counted under {shown(key)}"
            yield Hit(at=quota, path=("spec", "hard", key), message=message, fix=f"use requests.{name}")


def _is_class_key(key: str) -> bool:
    return ".storageclass.storage.k8s.io/" in key or ".deviceclass.resource.k8s.io/" in key


@rule("quota-count-without-group", Severity.ERROR)
def quota_count_without_group(world: World) -> Iterator[Hit]:
    """A ResourceQuota counts objects by a name that no resource has, so it never binds.

    `count/<plural>.<group>`: Deployments are `count/deployments.apps`; without a group the core group is meant.
    """
    for quota, key, _ in _hard(world):
        resource = key.removeprefix("count/")
        if key.startswith("count/") and "." not in resource and resource not in _CORE:
            message = f"counting objects: the core group has no such resource: {shown(key)}"
            fix = "name plural and group, such as count/deployments.apps or count/jobs.batch"
            yield Hit(at=quota, path=("spec", "hard", key), message=message, fix=fix)


@rule("quota-value-malformed", Severity.ERROR)
def quota_value_malformed(world: World) -> Iterator[Hit]:
    """A ResourceQuota has a value that is no quantity, is negative, or is a fraction of what is counted whole.

    GPUs, pods and objects are counted in whole numbers; memory takes suffixes such as Gi.
    """
    for quota, key, value in _hard(world):
        found = amount(value)
        is_whole = key in _CORE or key.startswith("count/") or key.startswith("requests.nvidia.com/")
        is_wrong = not is_quantity(value) or (found is not None and (found < 0 or (is_whole and found % 1 > 0)))
        if isinstance(value, str | int | float) and not has_hole(str(value)) and is_wrong:
            message = f"limiting namespace: not an amount of {key}: {shown(str(value))}"
            yield Hit(at=quota, path=("spec", "hard", key), message=message, fix="write a number such as 8 or 512Gi")


@rule("quota-scope-unknown", Severity.ERROR)
def quota_scope_unknown(world: World) -> Iterator[Hit]:
    """A ResourceQuota has a scope that does not exist, or scopes that exclude each other; it is refused.

    Scopes are BestEffort, NotBestEffort, Terminating, NotTerminating, PriorityClass, CrossNamespacePodAffinity and
    VolumeAttributesClass.
    """
    for quota in world.of_kind("ResourceQuota"):
        found = list(items(quota.value, "spec", "scopes"))
        found += [
            ((*path, "scopeName"), look(item, "scopeName"))
            for path, item in items(quota.value, "spec", "scopeSelector", "matchExpressions")
        ]
        names = {name for _, name in found if isinstance(name, str)}
        for path, name in found:
            if isinstance(name, str) and name not in _SCOPES and not has_hole(name):
                message = f"choosing pods: there is no scope {shown(name)}"
                fix = f"use one of: {', '.join(_SCOPES)}"
                yield Hit(at=quota, path=path, message=message, fix=fix)
        for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
            if pair <= names:
                message = f"choosing pods: no pod is in both scopes {shown(', '.join(sorted(pair)))}"
                yield Hit(at=quota, path=("spec", "scopes"), message=message, fix="keep one of them")


@rule("quota-scope-counts-nothing", Severity.ERROR)
def quota_scope_counts_nothing(world: World) -> Iterator[Hit]:
    """A ResourceQuota for best-effort pods limits something that such pods do not ask for, which is refused.

    In scope BestEffort only `pods` can be limited: best-effort pods have no requests, and no GPU.
    """
    for quota, key, _ in _hard(world):
        scopes = {item for _, item in items(quota.value, "spec", "scopes") if isinstance(item, str)}
        if "BestEffort" in scopes and key not in ("pods", "count/pods"):
            message = f"limiting namespace: best-effort pods ask for none of {shown(key)}"
            yield Hit(
                at=quota, path=("spec", "hard", key), message=message, fix="leave the scope out, or limit pods only"
            )


@rule("quota-of-unused-priority", Severity.WARNING)
def quota_of_unused_priority(world: World) -> Iterator[Hit]:
    """A ResourceQuota counts pods of a priority class that no pod of its namespace has, so it bounds nothing.

    A scope narrows a quota; pods without the class are not counted at all.
    """
    for quota in world.of_kind("ResourceQuota"):
        pods = world.pods_in(quota.namespace)
        used = {text(pod.spec, "priorityClassName") for pod in pods}
        for path, term in items(quota.value, "spec", "scopeSelector", "matchExpressions"):
            names = [name for _, name in items(term, "values") if isinstance(name, str)]
            if look(term, "scopeName") != "PriorityClass" or look(term, "operator") != "In" or not names or not pods:
                continue
            if not used & {*names} and not any(map(has_hole, (*names, *filter(None, used)))):
                message = f"limiting namespace: no pod in it has the priority class: {shown(names[0])}"
                fix = "leave the scope out, or set priorityClassName in the pods"
                yield Hit(at=quota, path=path, message=message, fix=fix)


def _plain_quotas(world: World) -> Iterator[tuple[Object, list[PodTemplate]]]:
    """Quotas that count every pod of their namespace, with the pods beside them."""
    for quota in world.of_kind("ResourceQuota"):
        spec = mapping(quota.value, "spec")
        if quota.group or spec.get("scopes") or spec.get("scopeSelector"):
            continue
        pods = [pod for pod in world.pods_in(quota.namespace) if pod.namespace == quota.namespace]
        pods = [pod for pod in pods if are_together(pod.owner, quota)]
        if quota.namespace is None:
            pods = [pod for pod in pods if pod.owner.folder == quota.folder]
        yield quota, pods


@rule("quota-smaller-than-workloads", Severity.ERROR)
def quota_smaller_than_workloads(world: World) -> Iterator[Hit]:
    """The workloads beside a ResourceQuota ask for more than it allows, so the last replicas are never made.

    Counted are the replicas that manifests or scalers ask for at least, without those that a roll-out adds; of a
    LeaderWorkerSet all pods of every group.
    """
    for quota, pods in _plain_quotas(world):
        sums = {part: _sum(world, pods, limits=part == "limits") for part in ("requests", "limits")}
        for key, value in mapping(quota.value, "spec", "hard").items():
            allowed, wanted = amount(value), _wanted(str(key), sums)
            if allowed is not None and wanted is not None and wanted > allowed:
                message = f"fitting workloads: they need {plain(wanted)} of {key}, the quota allows {shown(str(value))}"
                fix = f"raise {key} to {plain(wanted)} or more (a roll-out needs some on top), or run fewer replicas"
                yield Hit(at=quota, path=("spec", "hard", key), message=message, fix=fix)


def _sum(world: World, pods: list[PodTemplate], *, limits: bool) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    seen: set[tuple[object, ...]] = set()
    for pod in pods:
        count = _least(world, pod)
        key = (pod.owner.kind, pod.owner.name, pod.path)
        if count is None or key in seen:
            continue
        seen.add(key)
        total["pods"] = total.get("pods", Decimal(0)) + count
        for name, value in pod_total(pod, limits=limits).items():
            total[name] = total.get(name, Decimal(0)) + value * count
    return total


def _least(world: World, pod: PodTemplate) -> int | None:
    """How many pods of a template there are at least; of a LeaderWorkerSet a leader and its workers for each group."""
    count = replicas(world, pod.owner)
    if count is None or pod.owner.kind != "LeaderWorkerSet":
        return count.least if count else None
    size = whole(pod.owner.value, "spec", "leaderWorkerTemplate", "size") or 1
    has_leader = bool(mapping(pod.owner.value, "spec", "leaderWorkerTemplate", "leaderTemplate"))
    return count.least * (1 if pod.path[-1] == "leaderTemplate" else size - has_leader)


def _wanted(key: str, sums: Mapping[str, Mapping[str, Decimal]]) -> Decimal | None:
    if key.startswith("limits."):
        return sums["limits"].get(key.removeprefix("limits."))
    if key in ("pods", "count/pods"):
        return sums["requests"].get("pods")
    name = key.removeprefix("requests.")
    return sums["requests"].get(name) if name != "storage" else None


@rule("quota-misses-accelerators", Severity.WARNING)
def quota_misses_accelerators(world: World) -> Iterator[Hit]:
    """A ResourceQuota limits one accelerator, but the pods beside it take another, or take theirs by a DRA claim.

    Every resource is counted by its own name: `requests.nvidia.com/gpu` counts neither MIG slices nor shared GPUs nor
    claims. Claims are counted by `<device class>.deviceclass.resource.k8s.io/devices`.
    """
    for quota, pods in _plain_quotas(world):
        hard = {str(key): amount(value) for key, value in mapping(quota.value, "spec", "hard").items()}
        limited_names = {
            key.removeprefix("requests."): value for key, value in hard.items() if key.startswith("requests.")
        }
        mine = [name for name, value in limited_names.items() if is_accelerator(name) and value]
        taken = {name for pod in pods for name in accelerators(pod)}
        claims = any(look(pod.spec, "resourceClaims") for pod in pods) and not any("deviceclass" in key for key in hard)
        missed = taken - limited_names.keys()
        is_idle = bool(missed) and any(name not in taken for name in mine)
        if mine and (is_idle or (claims and not taken & limited_names.keys())):
            what = ", ".join(sorted(missed)) or "devices by claims"
            message = f"limiting namespace: the pods take {what}, which {shown(f'requests.{mine[0]}')} does not count"
            wanted = f"requests.{min(missed)}" if missed else "<device class>.deviceclass.resource.k8s.io/devices"
            path = ("spec", "hard", f"requests.{mine[0]}")
            yield Hit(at=quota, path=path, message=message, fix=f"limit {wanted} as well")


@rule("quota-demands-requests", Severity.ERROR)
def quota_demands_requests(world: World) -> Iterator[Hit]:
    """A ResourceQuota counts CPU or memory, but a container beside it does not say how much it takes.

    The API server then refuses the pod: `must specify limits.cpu` (loft-sh/vcluster#1746). A LimitRange with defaults
    in the namespace fills it in.
    """
    for quota, pods in _plain_quotas(world):
        keys = [str(key) for key in mapping(quota.value, "spec", "hard")]
        wanted = [key for key in keys if re.fullmatch(r"((requests|limits)\.)?(cpu|memory)", key)]
        for pod in pods:
            for container in pod.containers:
                lacking = [key for key in wanted if not _says(container, key) and not _is_filled(world, quota, key)]
                if lacking and container.image:
                    what = ", ".join(lacking)
                    message = f"counting pods: {quota.title} demands {what} of container {shown(container.name)}"
                    fix = "set it in resources, or add a LimitRange with defaults to the namespace"
                    yield Hit(at=pod.owner, path=container.path, message=message, fix=fix)


def _says(container: Container, key: str) -> bool:
    part, _, name = key.rpartition(".")
    return name in (limited(container) if part == "limits" else asked(container)) or isinstance(
        container.value.get("resources"), str
    )


def _is_filled(world: World, quota: Object, key: str) -> bool:
    part, _, name = key.rpartition(".")
    for found in world.of_kind("LimitRange"):
        if found.namespace in (quota.namespace, None) or quota.namespace is None:
            for _, item in items(found.value, "spec", "limits"):
                fields = ("default", "max") if part == "limits" else ("defaultRequest", "default", "max", "min")
                if text(item, "type") == "Container" and any(name in mapping(item, field) for field in fields):
                    return True
    return False


_ORDER: tuple[tuple[str, str], ...] = (
    ("min", "max"),
    ("min", "default"),
    ("min", "defaultRequest"),
    ("defaultRequest", "default"),
)
_ORDER += (("default", "max"), ("defaultRequest", "max"))


def _ranges(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for found in world.of_kind("LimitRange"):
        for path, item in items(found.value, "spec", "limits"):
            if isinstance(item, Mapping):
                yield found, path, item


@rule("limit-range-contradicts-itself", Severity.ERROR)
def limit_range_contradicts_itself(world: World) -> Iterator[Hit]:
    """A LimitRange has a minimum above its maximum, or a default outside of them; the API server refuses it.

    An update of one of the numbers is the usual cause. The whole LimitRange is refused, so no default is set
    either.
    """
    for found, path, item in _ranges(world):
        for low, high in _ORDER:
            for name, value in mapping(item, low).items():
                least, most = amount(value), amount(look(item, high, name))
                if least is not None and most is not None and least > most:
                    message = f"limiting containers: {low} {shown(str(value))} of {name} is above {high} {plain(most)}"
                    fix = "order them: min <= defaultRequest <= default <= max"
                    yield Hit(at=found, path=(*path, low, name), message=message, fix=fix)


@rule("limit-range-refuses-container", Severity.ERROR)
def limit_range_refuses_container(world: World) -> Iterator[Hit]:
    """A container beside a LimitRange asks for more than its maximum or less than its minimum, and is refused.

    The workload is accepted; its controller reports `maximum memory usage per Container is …` and stays at zero
    pods.
    """
    for found, path, item in _ranges(world):
        if text(item, "type") != "Container" or found.namespace is None:
            continue
        for pod in world.pods_in(found.namespace):
            for container in pod.containers if pod.namespace == found.namespace else ():
                for name, value in limited(container).items():
                    most = amount(look(item, "max", name))
                    if most is not None and value > most:
                        message = f"limiting container: {plain(value)} of {name} is above the maximum of {found.title}"
                        fix = f"lower it to {plain(most)}, or raise {'.'.join(map(str, path))}.max.{name}"
                        place = (*container.path, "resources", "limits", name)
                        yield Hit(at=pod.owner, path=place, message=f"{message}: {shown(plain(most))}", fix=fix)
