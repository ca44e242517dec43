"""What a route matches and does on the way: paths, filters, and rules that never get a request.

Backends are `backends`, parents `parents`, timeouts `timeouts`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import hostnames, is_inference_rule, parents, routes, rules
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import Object, World

_FILTER_FIELDS = {
    "CORS": "cors",
    "ExtensionRef": "extensionRef",
    "RequestHeaderModifier": "requestHeaderModifier",
    "RequestMirror": "requestMirror",
    "RequestRedirect": "requestRedirect",
    "ResponseHeaderModifier": "responseHeaderModifier",
    "URLRewrite": "urlRewrite",
}
_ONCE = ("RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite")
_EXCLUDES = {"RequestRedirect": "URLRewrite", "URLRewrite": "RequestRedirect"}
_BAD_IN_PATH = ("//", "/./", "/../", "%2f", "%2F", "#")
_GLOB = re.compile(r"\*|\(\.\+?\*?\)|\.\*|\{[a-z]+\}|/:[a-z]+")
_MANY_MATCHES = 128


def _matches(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            for inner, match in items(part, "matches"):
                if isinstance(match, Mapping):
                    yield route, (*path, *inner), match


@rule("route-path-malformed", Severity.ERROR)
def route_path_malformed(world: World) -> Iterator[Hit]:
    """A path that a route matches cannot be one.

    A path of type PathPrefix or Exact begins with `/` and has no `//`, `/./`, `/../`, `%2f` or `#`; it has no query.
    The API server refuses the route (Gateway API, HTTPPathMatch).
    """
    for route, path, match in _matches(world):
        value, kind = text(match, "path", "value"), text(match, "path", "type") or "PathPrefix"
        if value is None or kind == "RegularExpression" or has_hole(value):
            continue
        reason = "it does not begin with `/`" if not value.startswith("/") else None
        reason = reason or next((f"it has `{part}`" for part in _BAD_IN_PATH if part in value), None)
        reason = reason or ("it has a query" if "?" in value else None)
        if reason:
            yield Hit(
                at=route,
                path=(*path, "path", "value"),
                message=f"matching path: {reason}: `{value}`",
                fix="write an absolute path such as `/v1/`",
            )


@rule("route-path-with-pattern", Severity.ERROR)
def route_path_with_pattern(world: World) -> Iterator[Hit]:
    """A path holds a pattern although its type takes it letter by letter.

    PathPrefix and Exact know no `*`, and `/v1/*` matches only a path that has a star in it. PathPrefix matches
    everything below anyway; for patterns there is RegularExpression, which not every controller has.
    """
    for route, path, match in _matches(world):
        value, kind = text(match, "path", "value"), text(match, "path", "type") or "PathPrefix"
        if value is not None and kind in ("PathPrefix", "Exact") and not has_hole(value) and _GLOB.search(value):
            yield Hit(
                at=route,
                path=(*path, "path", "value"),
                message=f"matching path by {kind}: patterns are taken letter by letter: `{value}`",
                fix=f"write `type: PathPrefix` and `value: {_GLOB.split(value)[0] or '/'}`",
            )


@rule("route-exact-misses-api", Severity.WARNING)
def route_exact_misses_api(world: World) -> Iterator[Hit]:
    """A route to a model server takes one path only, and the API is below it.

    `Exact` matches letter by letter: `/v1` is not `/v1/chat/completions`, and every call is answered with 404.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            for inner, match in items(part, "matches"):
                value = text(match, "path", "value") or ""
                is_folder = text(match, "path", "type") == "Exact" and value.rstrip("/") in ("", "/v1")
                if is_folder and "/" in value and is_inference_rule(world, route, part):
                    yield Hit(
                        at=route,
                        path=(*path, *inner, "path", "type"),
                        message=f"matching path: Exact takes nothing below it: `{value}`",
                        fix="write `type: PathPrefix`",
                    )


@rule("route-filter-malformed", Severity.ERROR)
def route_filter_malformed(world: World) -> Iterator[Hit]:
    """A filter of a route does not hold what its type says.

    Each type has its own field, such as `urlRewrite` for URLRewrite, which must be there and no other. The API server
    refuses the route.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            for inner, item in items(part, "filters"):
                field = _FILTER_FIELDS.get(text(item, "type") or "")
                held = [key for key in _FILTER_FIELDS.values() if look(item, key) is not None]
                if field and (field not in held or len(held) > 1):
                    yield Hit(
                        at=route,
                        path=(*path, *inner),
                        message=f"filtering requests: type {item['type']} needs just field `{field}`: `{route.name}`",
                        fix=f"write `{field}` and nothing beside `type`",
                    )


@rule("route-filter-twice", Severity.ERROR)
def route_filter_twice(world: World) -> Iterator[Hit]:
    """A rule of a route has a filter twice that may stand once, or redirects and rewrites at once.

    Header modifiers, redirects and rewrites are not repeated: all of it goes into one filter. The API server refuses
    the route (`URLRewrite filter cannot be repeated`).
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            seen: list[str] = []
            for inner, item in items(part, "filters"):
                kind = text(item, "type") or ""
                other = _EXCLUDES.get(kind)
                if (kind in seen and kind in _ONCE) or other in seen:
                    fact = "it stands twice" if kind in seen else f"{other} stands beside it"
                    message = f"filtering requests: {fact}: `{kind}`"
                    yield Hit(at=route, path=(*path, *inner), message=message, fix="keep one filter in a rule")
                seen.append(kind)


@rule("route-redirect-with-backend", Severity.ERROR)
def route_redirect_with_backend(world: World) -> Iterator[Hit]:
    """A rule redirects and has backends as well.

    A redirect answers by itself; the API server refuses the route.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            kinds = [text(item, "type") for _, item in items(part, "filters")]
            if "RequestRedirect" in kinds and part.get("backendRefs"):
                yield Hit(
                    at=route,
                    path=(*path, "backendRefs"),
                    message=f"redirecting: the rule has backends too: `{route.name}`",
                    fix="put the redirect in a rule, or a route, of its own",
                )
            elif {"RequestRedirect", "URLRewrite"} <= set(kinds):
                yield Hit(
                    at=route,
                    path=(*path, "filters"),
                    message=f"redirecting: the rule rewrites too: `{route.name}`",
                    fix="keep one of RequestRedirect and URLRewrite",
                )


@rule("route-rewrite-without-prefix", Severity.ERROR)
def route_rewrite_without_prefix(world: World) -> Iterator[Hit]:
    """A rule replaces a path's prefix without matching just one prefix.

    `ReplacePrefixMatch` needs exactly one match, of type PathPrefix; the API server refuses the route otherwise.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            kinds = [text(match, "path", "type") or "PathPrefix" for _, match in items(part, "matches")]
            for inner, item in items(part, "filters"):
                for field in ("urlRewrite", "requestRedirect"):
                    replaces = text(item, field, "path", "type") == "ReplacePrefixMatch"
                    if replaces and kinds != ["PathPrefix"]:
                        yield Hit(
                            at=route,
                            path=(*path, *inner, field, "path"),
                            message=f"replacing prefix: the rule does not match just one prefix: `{route.name}`",
                            fix="give the rule one match of type PathPrefix",
                        )


@rule("route-match-twice", Severity.WARNING)
def route_match_twice(world: World) -> Iterator[Hit]:
    """Two rules match the same requests, and one of them never gets any.

    Within a route the first rule wins, between routes the older one, then the one whose name comes first (Gateway API,
    HTTPRouteRule). The other seems to work until somebody wonders why its change does nothing. Two overlays of one base
    that keep its hostname do so as well, where both attach to one Gateway.
    """
    seen: dict[str, list[_Taker]] = {}
    for route in routes(world, "HTTPRoute"):
        spots = [(f"{one.namespace}/{one.name}", one.value.get("sectionName"), one.port) for one in parents(route)]
        hosts: list[str] = sorted({name for _, name in hostnames(route)}) or ["*"]
        unknown = len(list(items(route.value, "spec", "hostnames"))) != len(list(hostnames(route)))
        if unknown:
            continue
        for path, part in rules(route):
            matches = [(inner, match) for inner, match in items(part, "matches")] or [((), {})]
            for inner, match in matches:
                told = json.dumps(_normal(match), sort_keys=True)
                where = (*path, *inner)
                takers = [
                    (seen.setdefault(f"{spot} {host} {told}", []), _Taker(route, where, section, port))
                    for spot, section, port in spots
                    for host in hosts
                ]
                other = next((one for before, ours in takers for one in before if one.meets(ours)), None)
                for before, ours in takers:
                    before.append(ours)
                if other:
                    yield Hit(
                        at=route,
                        path=where,
                        message=f"matching requests: another rule takes the same ones: `{other.route.title}`",
                        fix="remove one of both, or tell them apart by path, header or hostname",
                    )


@dataclass(frozen=True, eq=False, slots=True)
class _Taker:
    """A match of a rule, at a listener (or at all of them) of a Gateway."""

    route: Object
    path: FieldPath
    section: Any
    port: int | None

    def meets(self, other: _Taker) -> bool:
        """Whether both get the same requests: another rule, at the same listener or where one is at all of them."""
        spaces = {self.route.namespace, other.route.namespace}
        is_namesake = self.route.name == other.route.name and (len(spaces) == 1 or None in spaces)
        is_other = self.path != other.path if self.route is other.route else not is_namesake
        same = all(
            one is None or two is None or one == two
            for one, two in ((self.section, other.section), (self.port, other.port))
        )
        return is_other and same


def _normal(match: Any) -> Any:
    """A match with its defaults written out."""
    path = {"type": "PathPrefix", "value": "/", **mapping(match, "path")}
    if path["type"] == "PathPrefix" and isinstance(path["value"], str) and len(path["value"]) > 1:
        path["value"] = path["value"].rstrip("/")
    return {**(match if isinstance(match, Mapping) else {}), "path": path}


@rule("route-with-too-many-matches", Severity.ERROR)
def route_with_too_many_matches(world: World) -> Iterator[Hit]:
    """A route has more matches or rules than Gateway API allows.

    16 rules, and 128 matches over all of them; the API server refuses more.
    """
    for route in routes(world, "HTTPRoute", "GRPCRoute"):
        parts = list(rules(route))
        count = sum(len(list(items(part, "matches"))) for _, part in parts)
        if len(parts) > 16 or count > _MANY_MATCHES:
            yield Hit(
                at=route,
                path=("spec", "rules"),
                message=f"matching requests: {len(parts)} rules with {count} matches are too many: `{route.name}`",
                fix="split the route into several of the same hostname",
            )
