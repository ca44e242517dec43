"""What KEDA's triggers ask for and what they must say: one value from Prometheus, the settings of each type.

Sources: KEDA's documentation of its scalers, and their parsing of metadata (`pkg/scalers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity
from provisioner.lint.joins.scaling import query, scalers
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, items, literal, mapping
from provisioner.lint.world import World

_PER_POD = re.compile(r"(?<![\w:])(?:vllm|sglang|llamacpp):\w+|(?<![\w:])(?:tgi|te|nv_inference|DCGM_FI)_\w+")
_JOINS = re.compile(
    r"\b(?:sum|avg|max|min|count|group|quantile|stddev|stdvar|scalar|histogram_quantile|topk|bottomk|absent|vector)\b",
)
_ONE_EACH = frozenset(["pod", "instance", "node", "gpu", "UUID", "Hostname", "exported_pod", "container"])
"""Labels that tell pods, nodes or GPUs apart."""
_PINNED = re.compile(r"\b(?:pod|instance|exported_pod)\s*=\s*\"")


@rule("scaler-query-of-many-values", Severity.ERROR)
def scaler_query_of_many_values(world: World) -> Iterator[Hit]:
    """A Prometheus query of KEDA gives a value for each pod, and KEDA takes one value only.

    With a second replica the trigger fails: `prometheus query … returned multiple elements`, and the replicas stay as
    they are. Put the values together by `sum(…)`, `avg(…)` or `max(…)`, without `by (pod)`.
    """
    for scaler in scalers(world):
        for path, item in scaler.triggers() if scaler.is_keda else ():
            written = query(item)
            if item.get("type") != "prometheus" or has_hole(written) or scaler.most in (0, 1):
                continue
            why = _why_many(written)
            if why:
                message = f"scaling {scaler.name}: the query gives a value for each pod, KEDA takes one: `{why}`"
                fix = "write sum(…), avg(…) or max(…) around it"
                yield Hit(at=scaler.at, path=(*path, "metadata", "query"), message=message, fix=fix)


def _why_many(written: str) -> str | None:
    """The metric, or the grouping, that makes a query give several values."""
    metric = _PER_POD.search(written)
    if metric is None or _PINNED.search(written):
        return None
    if not _JOINS.search(written):
        return metric[0]
    split = re.fullmatch(r"\s*(?:sum|avg|max|min|count)\s*by\s*\(([^()]*)\)\s*\((?:[^()]|\([^()]*\))*\)\s*", written)
    labels = {label.strip() for label in split[1].split(",")} if split else set()
    return f"by ({', '.join(sorted(labels))})" if labels & _ONE_EACH else None


_NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "aws-sqs-queue": (("queueURL",), ("awsRegion",)),
    "azure-servicebus": (("queueName", "topicName"),),
    "external": (("scalerAddress",),),
    "external-push": (("scalerAddress",),),
    "gcp-pubsub": (("subscriptionName", "topicName"),),
    "kafka": (("bootstrapServers",), ("consumerGroup",)),
    "kubernetes-workload": (("podSelector",), ("value",)),
    "loki": (("serverAddress",), ("query",), ("threshold",)),
    "metrics-api": (("url",), ("valueLocation",), ("targetValue",)),
    "mysql": (("query",), ("queryValue",)),
    "nats-jetstream": (("natsServerMonitoringEndpoint",), ("account",), ("stream",), ("consumer",)),
    "postgresql": (("query",), ("targetQueryValue",)),
    "rabbitmq": (("queueName",), ("host",), ("value", "queueLength")),
    "redis": (("address", "addresses", "host", "hosts"), ("listName",)),
    "redis-streams": (("address", "addresses", "host", "hosts"), ("stream",)),
}
"""What each type of trigger needs, with alternatives; each may come from the environment or the authentication."""


@rule("scaler-trigger-lacks-setting", Severity.ERROR)
def scaler_trigger_lacks_setting(world: World) -> Iterator[Hit]:
    """A trigger of KEDA lacks a setting that its type needs.

    KEDA refuses the trigger: `missing required parameter … in [triggerMetadata authParams resolvedEnv]`, and the
    workload stays as it is. A setting may also come from the environment, as `hostFromEnv`, or from the
    TriggerAuthentication.
    """
    for found in world.of_kind("ScaledObject", "ScaledJob"):
        for path, item in items(found.value, "spec", "triggers"):
            metadata = mapping(item, "metadata")
            if any(has_hole(key) for key in metadata):
                continue
            for names in _NEEDED.get(literal(item, "type") or "", ()):
                given = any(metadata.get(f"{name}{end}") not in (None, "") for name in names for end in ("", "FromEnv"))
                if not given and not _from_authentication(item):
                    message = (
                        f"scaling {found.name}: a trigger of type {item['type']} needs metadata.`{' or '.join(names)}`"
                    )
                    yield Hit(at=found, path=(*path, "metadata"), message=message, fix=f"add {names[0]}")


def _from_authentication(item: Mapping[str, object]) -> bool:
    """Whether a TriggerAuthentication may give what is missing."""
    return bool(mapping(item, "authenticationRef"))
