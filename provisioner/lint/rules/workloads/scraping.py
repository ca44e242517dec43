"""How monitors scrape: times and relabelings that the Prometheus operator refuses.

Source: the operator's API reference and its checks of monitors; one that does not pass is left out of the
configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.schedule import seconds
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal
from provisioner.lint.world import Object, World

_ENDPOINTS = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
_ACTIONS = (
    *("replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase"),
    *("keepequal", "dropequal"),
)


def _endpoints(world: World) -> Iterator[tuple[Object, FieldPath, object]]:
    for kind, field in _ENDPOINTS.items():
        for found in world.of_kind(kind):
            yield from ((found, path, item) for path, item in items(found.value, "spec", field))


@rule("scrape-timeout-above-interval", Severity.ERROR)
def scrape_timeout_above_interval(world: World) -> Iterator[Hit]:
    """A monitor waits longer for an answer than until it asks again.

    The operator leaves the monitor out: `scrapeTimeout … greater than scrapeInterval`, and nothing is scraped.
    """
    for found, path, item in _endpoints(world):
        wait, every = (literal(item, name) for name in ("scrapeTimeout", "interval"))
        least, most = seconds(wait or ""), seconds(every or "")
        if least is not None and most is not None and least > most:
            message = f"scraping: it asks every {every} and waits for `{wait}`"
            yield Hit(at=found, path=(*path, "scrapeTimeout"), message=message, fix=f"wait for {every} at most")


@rule("relabeling-refused", Severity.ERROR)
def relabeling_refused(world: World) -> Iterator[Hit]:
    """A relabeling of a monitor has an action that does not exist, or a pattern that is not closed.

    The operator leaves the monitor out, or the API server refuses it; nothing is scraped.
    """
    for found, path, item in _endpoints(world):
        for part in ("relabelings", "metricRelabelings"):
            for inner, entry in items(item, part):
                action, pattern = (literal(entry, name) for name in ("action", "regex"))
                if action is not None and action.lower() not in _ACTIONS:
                    near = nearest_name(action.lower(), _ACTIONS)
                    message = f"relabeling: there is no such action: `{action}`"
                    fix = f"did you mean {near}?" if near else f"use one of: {', '.join(_ACTIONS)}"
                    yield Hit(at=found, path=(*path, *inner, "action"), message=message, fix=fix)
                if pattern is not None and _is_open(pattern):
                    message = f"relabeling: a bracket of the pattern is not closed: {shown(pattern)}"
                    yield Hit(at=found, path=(*path, *inner, "regex"), message=message, fix="close it")


def _is_open(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error as error:
        return "unterminated" in error.msg or "unbalanced" in error.msg
    return False
