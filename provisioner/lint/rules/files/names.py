"""Labels and annotations of well-known controllers that are almost spelt right, and therefore read by nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity
from provisioner.lint.joins.slips import distance
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import mapping, texts
from provisioner.lint.world import POD_TEMPLATES, Object, World

_KNOWN: Mapping[str, tuple[str, ...]] = {
    prefix: tuple(names.split())
    for prefix, names in {
        "app.kubernetes.io": "name instance version component part-of managed-by created-by",
        "autoscaling.keda.sh": "paused paused-replicas paused-scale-in paused-scale-out",
        "karpenter.sh": "do-not-disrupt do-not-evict do-not-consolidate capacity-type nodepool initialized registered "
        "nodepool-hash nodepool-hash-version unregistered nodeclaim-termination-timestamp",
        "kueue.x-k8s.io": "queue-name priority-class pod-group-name pod-group-total-count pod-group-fast-admission "
        "pod-group-pod-index pod-group-pod-index-label pod-group-serving prebuilt-workload-name managed "
        "max-exec-time-seconds job-min-parallelism job-completions-equal-parallelism retriable-in-group elastic-job "
        "podset podset-required-topology podset-preferred-topology podset-unconstrained-topology podset-group-name "
        "podset-slice-required-topology podset-slice-size tas multikueue-origin job-uid cannot-assign-flavor",
        "leaderworkerset.sigs.k8s.io": "name group-index worker-index group-key size subgroup-index subgroup-key "
        "subgroup-size subgroup-exclusive-topology exclusive-topology leader-name leader-requests-tpus "
        "subgroup-policy-type template-revision-hash",
        "lint.tenantry.io": "ignore",
        "prometheus.io": "scrape port path scheme interval timeout probe scrape-slow",
    }.items()
}
_SLIP = 2


@lru_cache(maxsize=4096)
def _meant(key: str) -> str | None:
    """The key that was meant by one that nobody knows, None where it is known or resembles none."""
    prefix, _, name = key.partition("/")
    names = _KNOWN.get(prefix)
    if names is None or name in names or len(name) < 4:
        return None
    near = next((known for known in names if distance(name, known) <= _SLIP), None)
    near = near or next((known for known in names if known.startswith(f"{name}-")), None)
    return f"{prefix}/{near}" if near else None


_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "istio-injection": ("enabled", "disabled"),
    "sidecar.istio.io/inject": ("true", "false"),
    "istio.io/dataplane-mode": ("ambient", "none"),
}
"""Labels that Istio reads, and the values that it knows."""


@rule("istio-label-value-unknown", Severity.ERROR)
def istio_label_value_unknown(world: World) -> Iterator[Hit]:
    """A label that switches Istio on or off has a value that Istio does not know.

    It compares the text: `enable`, `yes` or `True` is none of them, and the pods get no proxy, or keep it.
    """
    for found in world.objects:
        for path in ((), *POD_TEMPLATES.get(found.kind, ())):
            for field in ("labels", "annotations"):
                place = (*path, "metadata", field)
                for key, value in texts(found.value, *place).items():
                    words = _SWITCHES.get(key)
                    if words and value not in words:
                        message = f"reading {key}: Istio knows {' and '.join(words)}, not {shown(value)}"
                        yield Hit(at=found, path=(*place, key), message=message, fix=f"write {words[0]} or {words[1]}")


@rule("well-known-name-misspelt", Severity.WARNING)
def well_known_name_misspelt(world: World) -> Iterator[Hit]:
    """A label or an annotation is almost one that a controller reads.

    Names are free, so the API server accepts every one, and the controller acts as if there were none: a Job without
    queue starts at once, a pod is not scraped, a finding is not silenced. Prefixes of Argo CD, ingress-nginx and Pod
    Security have rules of their own.
    """
    for found in world.objects:
        for path in ((), *POD_TEMPLATES.get(found.kind, ())):
            for field in ("labels", "annotations"):
                yield from _misspelt(found, (*path, "metadata", field))


def _misspelt(found: Object, path: FieldPath) -> Iterator[Hit]:
    for key in mapping(found.value, *path):
        near = _meant(key) if isinstance(key, str) and "/" in key else None
        if near:
            message = f"reading {path[-1]}: no controller reads {shown(key)}"
            yield Hit(at=found, path=(*path, key), message=message, fix=f"write {near}")
