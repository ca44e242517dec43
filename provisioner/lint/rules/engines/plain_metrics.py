"""Metrics of Triton and Text Generation Inference, whose names have no colon, and the scheme that monitors speak."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.model_servers import engines
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.engines._metric_names import OF_TGI, OF_TRITON, bare
from provisioner.lint.rules.engines._promql import queries
from provisioner.lint.rules.engines._reach import monitors
from provisioner.lint.values import items, text
from provisioner.lint.world import World

_NAME = re.compile(r"(?<![\w:])(nv_(?:inference|cache|trt_llm|gpu|energy)_|tgi_)([a-z0-9_]+)(?![\w:*]|\.[*+])")
_CLOSE = 0.75


@rule("server-metric-unknown", Severity.WARNING)
def server_metric_unknown(world: World) -> Iterator[Hit]:
    """A query asks for a metric of Triton or of Text Generation Inference that they do not have.

    Prometheus answers an unknown name with an empty result, not with an error: the scaler never moves, the alert never
    fires. Names are those of Triton's guide to metrics and of TGI's page on them; a backend of one's own may have more.
    """
    made = set(_recorded(world))
    for found in queries(world):
        for head, rest in dict.fromkeys(_NAME.findall(found.text)):
            known, name = (OF_TGI if head == "tgi_" else OF_TRITON), f"{head}{rest}"
            if name in known or bare(name) in known or name in made:
                continue
            near = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE)
            message = f"querying metrics: no release has `{name}`"
            fix = f"did you mean {near[0]}?" if near else "compare with what the server's /metrics shows"
            yield Hit(at=found.at, path=found.path, message=message, fix=fix)


def _recorded(world: World) -> Iterator[str | None]:
    for found in world.of_kind("PrometheusRule"):
        for group, _ in items(found.value, "spec", "groups"):
            yield from (text(item, "record") for _, item in items(found.value, *group, "rules"))


@rule("monitor-with-other-scheme", Severity.ERROR)
def monitor_with_other_scheme(world: World) -> Iterator[Hit]:
    """A monitor scrapes a model server by HTTPS that speaks plain HTTP.

    Without a certificate on its command line an engine has no TLS: Prometheus finds the target down, and scalers and
    alerts see nothing.
    """
    for engine in engines(world):
        if "tls" not in engine.profile.flags or engine.find("tls") or not engine.is_complete or not engine.is_alone:
            continue
        for monitor in dict.fromkeys(monitors(engine, world)):
            for field in ("podMetricsEndpoints", "endpoints"):
                for path, item in items(monitor.value, "spec", field):
                    if (text(item, "scheme") or "").lower() == "https":
                        message = f"scraping {engine.pod.owner.title}: {engine.kind} has no TLS here, asked by `https`"
                        yield Hit(at=monitor, path=(*path, "scheme"), message=message, fix="remove scheme")
