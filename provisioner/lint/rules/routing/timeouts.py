"""Timeouts of routes: a long generation must not be cut by a default that nobody chose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._durations import seconds
from provisioner.lint.rules.routing._routes import backends, is_inference_rule, parents, routes, rules
from provisioner.lint.values import has_hole, items, literal, look, mapping, text
from provisioner.lint.world import Object, World

_SHORTEST_GENERATION_SECONDS = 60.0
_DURATION = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
_TIMEOUTS = ("request", "backendRequest")
_WHOLE_REQUEST = {"requesttimeout", "timeoutsec", "timeout", "request", "maxstreamduration"}
_POLICIES = (
    "BackendTrafficPolicy",
    "TrafficPolicy",
    "GCPBackendPolicy",
    "ProxySettingsPolicy",
    "RouteOption",
    "AIGatewayRoute",
    "BackendConfigPolicy",
)


def _rules(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            yield route, path, part


@lru_cache(maxsize=2)
def _timed_elsewhere(world: World) -> frozenset[tuple[str, str]]:
    """Kinds and names that a policy of a controller gives a timeout."""
    found: set[tuple[str, str]] = set()
    for policy in world.of_kind(*_POLICIES):
        if policy.kind != "AIGatewayRoute" and not _has_timeout(policy.value.get("spec"), 0):
            continue
        single = mapping(policy.value, "spec", "targetRef")
        for target in [single, *(item for _, item in items(policy.value, "spec", "targetRefs"))]:
            found.add((text(target, "kind") or "", text(target, "name") or ""))
        if mapping(policy.value, "spec").get("targetSelectors"):
            found.add(("HTTPRoute", "*"))
    return frozenset(found)


def _has_timeout(value: Any, depth: int) -> bool:
    """Whether a policy limits, or frees, the time of a whole request."""
    if not isinstance(value, Mapping) or depth > 6:
        return False
    return any(
        (str(key).lower() in _WHOLE_REQUEST and not isinstance(item, Mapping)) or _has_timeout(item, depth + 1)
        for key, item in value.items()
    )


def _is_timed(world: World, route: Object) -> bool:
    names = {("HTTPRoute", route.name), ("HTTPRoute", "*")}
    names |= {("Gateway", parent.name or "") for parent in parents(route)}
    names |= {("Service", backend.name or "") for backend in backends(route)}
    return bool(names & _timed_elsewhere(world))


@rule("route-without-timeout", Severity.WARNING)
def route_without_timeout(world: World) -> Iterator[Hit]:
    """A route to a model server leaves its timeout to the controller's default.

    Defaults differ and cut long generations and streams without a word: 15 seconds with Envoy Gateway, 60 with Envoy AI
    Gateway (ai-gateway pull request 796), 120 fixed in AIBrix (aibrix issue 1176), 300 in a chart of llm-d. `0s` means
    no timeout; the model server's own limits then decide. Gateway API, HTTPRouteTimeouts.
    """
    for route, path, part in _rules(world):
        given = mapping(part, "timeouts")
        if "request" in given or "backendRequest" in given or _is_timed(world, route):
            continue
        if is_inference_rule(world, route, part):
            yield Hit(
                at=route,
                path=path,
                message=f"routing inference: the timeout is left to the controller's default: `{route.name}`",
                fix='set `timeouts.request`, such as `"600s"`, or `"0s"` for none',
            )


@rule("route-timeout-short", Severity.WARNING)
def route_timeout_short(world: World) -> Iterator[Hit]:
    """A route to a model server ends requests before a long generation is through.

    The timeout covers the whole answer, a stream to its last token: a thousand tokens at 20 tokens a second take 50
    seconds, and waiting in a queue counts too. Less than 60 seconds cuts what people ask for every day.
    """
    for route, path, part in _rules(world):
        for key in _TIMEOUTS:
            limit = seconds(text(part, "timeouts", key))
            if limit and limit < _SHORTEST_GENERATION_SECONDS and is_inference_rule(world, route, part):
                yield Hit(
                    at=route,
                    path=(*path, "timeouts", key),
                    message=f"routing inference: a long generation is cut by `{key}`: `{part['timeouts'][key]}`",
                    fix='allow some minutes, such as `"600s"`, or `"0s"` for no limit',
                )


@rule("route-timeout-malformed", Severity.ERROR)
def route_timeout_malformed(world: World) -> Iterator[Hit]:
    """A timeout of a route is no duration of Gateway API.

    GEP-2257 allows up to four numbers of at most five digits with `h`, `m`, `s` or `ms`, such as `1h30m`: no
    fractions, no days, no number without unit. The API server refuses the route.
    """
    for route in routes(world, "HTTPRoute", "GRPCRoute"):
        for path, part in rules(route):
            spots = [("timeouts", key) for key in _TIMEOUTS] + [
                ("retry", "backoff"),
                ("sessionPersistence", "idleTimeout"),
            ]
            for spot in spots:
                value = look(part, *spot)
                is_open = has_hole(value)
                if value is None or is_open or (isinstance(value, str) and _DURATION.fullmatch(value)):
                    continue
                yield Hit(
                    at=route,
                    path=(*path, *spot),
                    message=f"reading timeout: it is no duration of Gateway API: `{value}`",
                    fix='write a text such as `"600s"`, `"10m"` or `"0s"`',
                )


@rule("route-backend-timeout-longer", Severity.ERROR)
def route_backend_timeout_longer(world: World) -> Iterator[Hit]:
    """The timeout of one try is longer than that of the whole request.

    `backendRequest` is a part of `request` and cannot exceed it, unless `request` is `0s`; the API server refuses the
    route (Gateway API, HTTPRouteTimeouts).
    """
    for route, path, part in _rules(world):
        whole_request = seconds(literal(part, "timeouts", "request"))
        one_try = seconds(literal(part, "timeouts", "backendRequest"))
        if whole_request and one_try is not None and (one_try > whole_request):
            yield Hit(
                at=route,
                path=(*path, "timeouts", "backendRequest"),
                message=f"limiting one try: it is longer than the request: `{part['timeouts']['backendRequest']}`",
                fix=f"lower it to at most `{part['timeouts']['request']}`, or raise `request`",
            )
