"""Workloads: what the API server refuses and no schema tells, and what a controller never finishes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.pods import every_pod, volumes
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.joins.schedule import is_cron
from provisioner.lint.joins.selectors import Selector, pod_labels, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import Hole, has_hole, is_known, items, look, mapping, text
from provisioner.lint.world import Object, PodTemplate, World

_WITH_SELECTOR = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_HOOK = "argocd.argoproj.io/hook"
_ENDLESS = re.compile(r"\b(sleep\s+(infinity|inf)|tail\s+-f\b|while\s+(true|:|\[ 1 \])\s*;?\s*do)")


def _with_selector(world: World) -> Iterator[tuple[PodTemplate, Selector]]:
    for pod in world.pods:
        found = selector(look(pod.owner.value, "spec", "selector")) if pod.owner.kind in _WITH_SELECTOR else None
        if found is not None:
            yield pod, found


@rule("workload-selector-mismatch", Severity.ERROR)
def workload_selector_mismatch(world: World) -> Iterator[Hit]:
    """A workload's selector does not match the labels of its own pod template.

    The API server refuses it: `selector does not match template labels`. Selectors cannot be changed later, so the
    labels of the template are what to correct on a workload that exists.
    """
    for pod, found in _with_selector(world):
        if (
            found.is_certain
            and not found.is_empty
            and mapping(pod.value, "spec")
            and not found.matches(pod_labels(pod))
        ):
            message = f"matching selector: the template's labels do not have {shown(str(found))}"
            fix = "give spec.template.metadata.labels every label of spec.selector"
            yield Hit(at=pod.owner, path=("spec", "selector"), message=message, fix=fix)


@rule("workload-selector-empty", Severity.ERROR)
def workload_selector_empty(world: World) -> Iterator[Hit]:
    """A workload has an empty selector, which the API server refuses for apps/v1 workloads.

    An empty selector would adopt every pod of the namespace.
    """
    for pod, found in _with_selector(world):
        if found.is_empty:
            message = "matching selector: it is empty, which the API server refuses"
            fix = "name the labels that tell these pods from others in spec.selector.matchLabels"
            yield Hit(at=pod.owner, path=("spec", "selector"), message=message, fix=fix)


@rule("workload-selects-others-pods", Severity.WARNING)
def workload_selects_others_pods(world: World) -> Iterator[Hit]:
    """A workload's selector also matches the pods of another workload in the same namespace.

    Controllers adopt pods by their labels, so the two may count each other's pods, and Services, budgets and monitors
    that use the same labels mix both. Source: Kubernetes documentation, "Deployments": do not overlap selectors.
    """
    for pod, found in _with_selector(world):
        if not found.is_certain or found.is_empty or found.expressions:
            continue
        for other in world.pods_of(found.labels, namespace=pod.namespace):
            if _is_another(pod.owner, other.owner):
                message = f"matching selector: it also selects the pods of {other.owner.title}: {shown(str(found))}"
                fix = "add a label to both selectors and templates that tells the two apart"
                yield Hit(at=pod.owner, path=("spec", "selector"), message=message, fix=fix)
                break


def _is_another(one: Object, other: Object) -> bool:
    """Whether two workloads stand beside each other; the same file with explicit or equal namespaces says so."""
    different = (one.kind, one.name) != (other.kind, other.name) and other.kind not in ("Pod", "Job", "CronJob")
    return different and one.namespace == other.namespace and one.folder == other.folder


@rule("restart-policy-refused", Severity.ERROR)
def restart_policy_refused(world: World) -> Iterator[Hit]:
    """A pod template has a restart policy that its owner cannot use.

    A Job or CronJob needs `OnFailure` or `Never` (left out means `Always`, which is refused); a Deployment,
    StatefulSet, DaemonSet or ReplicaSet takes `Always` only.
    """
    for pod in world.pods:
        policy = mapping(pod.value, "spec").get("restartPolicy", "Always")
        if not pod.spec or isinstance(policy, Hole):
            continue
        is_job = pod.owner.kind in ("Job", "CronJob")
        allowed = ("OnFailure", "Never") if is_job else ("Always",) if pod.owner.kind in _WITH_SELECTOR else (policy,)
        if policy not in allowed:
            message = f"starting pods: a {pod.owner.kind} does not take restartPolicy {shown(policy)}"
            fix = f"set restartPolicy: {allowed[-1] if is_job else 'Always'}"
            yield Hit(at=pod.owner, path=pod.at("restartPolicy"), message=message, fix=fix)


_UNIQUE = (
    ("containers", "name", "container"),
    ("volumes", "name", "volume"),
    ("initContainers", "name", "init container"),
)


@rule("name-twice-in-pod", Severity.ERROR)
def name_twice_in_pod(world: World) -> Iterator[Hit]:
    """Two containers, volumes, ports or mount paths of one pod have the same name, which the API server refuses.

    The workload is refused with `Duplicate value`, or, for mount paths, with `must be unique`. Init containers and
    containers share their names.
    """
    for pod in every_pod(world):
        for part, key, what in _UNIQUE:
            found = [(path, text(item, key)) for path, item in items(pod.spec, part)]
            yield from _twice(pod, found, what, ())
        for container in pod.containers:
            for part, key, what in (("ports", "name", "port"), ("volumeMounts", "mountPath", "mount path")):
                found = [(path, text(item, key)) for path, item in items(container.value, part)]
                yield from _twice(pod, found, what, container.path)


def _twice(pod: PodTemplate, found: list[tuple[FieldPath, str | None]], what: str, base: FieldPath) -> Iterator[Hit]:
    counts = Counter(name for _, name in found if name)
    seen: set[str] = set()
    for path, name in found:
        if name and counts[name] > 1:
            if name in seen:
                place = (*base, *path) if base else pod.at(*path)
                message = f"naming {what}: it stands twice in the pod: {shown(name)}"
                yield Hit(at=pod.owner, path=place, message=message, fix=f"give every {what} its own name")
            seen.add(name)


@rule("environment-variable-twice", Severity.WARNING)
def environment_variable_twice(world: World) -> Iterator[Hit]:
    """A container sets one environment variable twice; the last one wins, whatever the first one was for.

    It happens when a base and an overlay both set the variable, or a block was copied. Tools that merge by name
    drop one of the two without a word.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            found = [(path, text(item, "name")) for path, item in items(container.value, "env")]
            for hit in _twice(pod, found, "variable", container.path):
                yield Hit(at=hit.at, path=hit.path, message=f"{hit.message}; the last wins", fix="keep one of them")


@rule("mount-without-volume", Severity.ERROR)
def mount_without_volume(world: World) -> Iterator[Hit]:
    """A container mounts a volume that the pod does not have.

    The API server refuses the pod: `volumeMounts[…].name: Not found`. A StatefulSet's claim templates are volumes too.
    """
    for pod in every_pod(world):
        known = volumes(pod)
        if any(not is_known(text(item, "name")) for _, item in items(pod.spec, "volumes")):
            continue
        for container in pod.containers:
            for path, item in items(container.value, "volumeMounts"):
                name = text(item, "name")
                if name and name not in known and pod.owner.kind != "LeaderWorkerSet":
                    message = f"mounting volume: the pod has none of that name: {shown(name)}"
                    have = ", ".join(sorted(known)) or "none"
                    fix = f"add it to spec.volumes; there are: {have}"
                    yield Hit(at=pod.owner, path=(*container.path, *path, "name"), message=message, fix=fix)


@rule("volume-not-mounted", Severity.INFO)
def volume_not_mounted(world: World) -> Iterator[Hit]:
    """A pod has a volume that no container mounts: a mount was forgotten, or the volume can go.

    An emptyDir for /dev/shm or a model cache that nobody mounts is a usual cause of slow or crashing engines.
    """
    for pod in every_pod(world):
        used = {
            text(item, "name")
            for container in pod.containers
            for part in ("volumeMounts", "volumeDevices")
            for _, item in items(container.value, part)
        }
        for path, item in items(pod.spec, "volumes"):
            name = text(item, "name")
            if name and name not in used and pod.containers:
                message = f"mounting volume: no container mounts it: {shown(name)}"
                fix = "mount it in a container or leave it out"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix=fix)


_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@rule("port-name-refused", Severity.ERROR)
def port_name_refused(world: World) -> Iterator[Hit]:
    """A container port has a name that the API server refuses.

    At most 15 characters of lower-case letters, digits and single hyphens, with at least one letter (RFC 6335).
    `inference-metrics` is too long already.
    """
    for pod in every_pod(world):
        for container in pod.containers:
            for path, item in items(container.value, "ports"):
                name = text(item, "name")
                if name and not has_hole(name) and (len(name) > 15 or not _PORT_NAME.fullmatch(name)):
                    message = f"naming port: not a port name (15 characters of a-z, 0-9 and -): {shown(name)}"
                    fix = "shorten it, for example `http` or `metrics`, and use the new name wherever it is referred to"
                    yield Hit(at=pod.owner, path=(*container.path, *path, "name"), message=message, fix=fix)


@rule("cron-schedule-malformed", Severity.ERROR)
def cron_schedule_malformed(world: World) -> Iterator[Hit]:
    """A CronJob's schedule is no cron expression of five fields, so the API server refuses it.

    Minute, hour, day of month, month, day of week; there is no field for seconds. `@daily` and its like work too.
    """
    for job in world.of_kind("CronJob"):
        schedule = text(job.value, "spec", "schedule")
        if schedule and not schedule.startswith("@") and not is_cron(schedule) and not has_hole(schedule):
            message = f"reading schedule: not five fields in their bounds: {shown(schedule)}"
            fix = "write minute, hour, day of month, month, day of week, such as `0 3 * * *`"
            yield Hit(at=job, path=("spec", "schedule"), message=message, fix=fix)


def _hook_jobs(world: World) -> Iterator[PodTemplate]:
    """Jobs and pods that a sync waits for."""
    for pod in world.pods:
        hook = pod.owner.annotations.get(_HOOK) or pod.owner.annotations.get("helm.sh/hook")
        if pod.owner.kind in ("Job", "Pod") and hook and hook != "Skip":
            yield pod


@rule("hook-runs-forever", Severity.ERROR)
def hook_runs_forever(world: World) -> Iterator[Hit]:
    """A sync hook runs a command that never ends, so the sync never ends.

    Argo CD and Helm wait until a hook's Job or Pod has completed; `sleep infinity`, `tail -f` and endless loops do not.
    """
    for pod in _hook_jobs(world):
        for container in pod.containers:
            words = " ".join(container.arguments)
            if _ENDLESS.search(words) and not re.search(r"\b(break|exit)\b", words):
                message = f"running hook: the command never ends: {shown(words)}"
                fix = "let the command end, or make it a workload instead of a hook"
                yield Hit(at=pod.owner, path=container.path, message=message, fix=fix)


@rule("hook-without-deadline", Severity.WARNING)
def hook_without_deadline(world: World) -> Iterator[Hit]:
    """A sync hook's Job has no deadline: when it hangs, the sync hangs with it, and no later sync starts.

    A warm-up or check that waits for a model that never loads blocks the whole Application. Argo CD has no time limit
    of its own for hooks.
    """
    for pod in _hook_jobs(world):
        path = ("spec", "activeDeadlineSeconds")
        pod_path = pod.at("activeDeadlineSeconds")
        if look(pod.owner.value, *path) is None and look(pod.owner.value, *pod_path) is None:
            message = "running hook: no activeDeadlineSeconds, so a hook that hangs blocks every later sync"
            fix = "set spec.activeDeadlineSeconds to the longest time the hook may take"
            yield Hit(at=pod.owner, path=("spec",), message=message, fix=fix)


def _plain_jobs(world: World) -> Iterator[Object]:
    for job in world.of_kind("Job"):
        if not ({_HOOK, "helm.sh/hook"} & job.annotations.keys()):
            yield job


@rule("job-never-cleaned-up", Severity.INFO)
def job_never_cleaned_up(world: World) -> Iterator[Hit]:
    """A Job has no ttlSecondsAfterFinished: it and its pods stay until somebody deletes them.

    Warm-up and benchmark Jobs add up, and a Job of the same name cannot be made again before the old one is gone.
    CronJobs and hooks are cleaned up by their owners. Argo CD would make such a Job again, so folders with Argo CD's
    objects are left out, and so are Jobs with annotations for it.
    """
    if any(world.has(kind) for kind in ("Application", "ApplicationSet", "ArgoCDApplicationTemplate")):
        return
    for job in _plain_jobs(world):
        if any(key.startswith("argocd.argoproj.io/") for key in job.annotations):
            continue
        if mapping(job.value, "spec") and look(job.value, "spec", "ttlSecondsAfterFinished") is None:
            message = "cleaning up job: no ttlSecondsAfterFinished"
            fix = "set spec.ttlSecondsAfterFinished, for example 3600"
            yield Hit(at=job, path=("spec",), message=message, fix=fix)


@rule("job-retries-by-default", Severity.INFO)
def job_retries_by_default(world: World) -> Iterator[Hit]:
    """A Job does not say how often it may fail; the default is 6 times with growing pauses.

    For a warm-up that takes a GPU or calls a paid endpoint, seven attempts may be more than meant.
    """
    for job in world.of_kind("Job"):
        spec = mapping(job.value, "spec")
        if spec and "backoffLimit" not in spec and "backoffLimitPerIndex" not in spec:
            message = "retrying job: no backoffLimit, so it fails only after seven attempts"
            yield Hit(at=job, path=("spec",), message=message, fix="set spec.backoffLimit")


@rule("volume-with-two-sources", Severity.ERROR)
def volume_with_two_sources(world: World) -> Iterator[Hit]:
    """A volume has more than one source, which the API server refuses: `may not specify more than 1 volume type`.

    It happens when an overlay adds a claim to a volume that the base makes an emptyDir: a strategic merge keeps
    both, unless the overlay sets the old one to null.
    """
    for pod in every_pod(world):
        for path, item in items(pod.spec, "volumes"):
            sources = sorted(str(key) for key in item if key != "name") if isinstance(item, Mapping) else []
            if len(sources) > 1:
                message = f"reading volume: more than one source: {shown(', '.join(sources))}"
                yield Hit(at=pod.owner, path=pod.at(*path), message=message, fix="keep one source, or make two volumes")


@rule("stateful-set-service-not-headless", Severity.WARNING)
def stateful_set_service_not_headless(world: World) -> Iterator[Hit]:
    """The Service that a StatefulSet names in serviceName has an address, so pods get no DNS names of their own.

    `<pod>.<service>` resolves only for a headless Service (`clusterIP: None`), and multi-node engines meet by it. With
    a single replica nobody needs that name.
    """
    for owner in world.of_kind("StatefulSet"):
        name = text(owner.value, "spec", "serviceName")
        service = world.find("Service", name, namespace=owner.namespace) if name else None
        count = replicas(world, owner)
        is_single = count is not None and count.most <= 1
        has_address = service and mapping(service.value, "spec") and look(service.value, "spec", "clusterIP") != "None"
        if has_address and not is_single:
            message = f"naming pods: the governing Service is not headless: {shown(name)}"
            fix = "set clusterIP: None in that Service, or name a headless one"
            yield Hit(at=owner, path=("spec", "serviceName"), message=message, fix=fix)
