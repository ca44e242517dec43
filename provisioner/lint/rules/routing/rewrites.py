"""How routes change a request's path: what the API server refuses, and what leaves the API's own paths behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import is_inference_rule, match_paths, routes, rules
from provisioner.lint.values import has_hole, items, look, mapping, text
from provisioner.lint.world import World

_API = re.compile(r"/(v\d|api)/?$")
_FIELDS = {"ReplaceFullPath": "replaceFullPath", "ReplacePrefixMatch": "replacePrefixMatch"}


@rule("route-rewrite-contradicts", Severity.ERROR)
def route_rewrite_contradicts(world: World) -> Iterator[Hit]:
    """A change of paths says one type and the field of the other.

    ReplaceFullPath goes with `replaceFullPath`, ReplacePrefixMatch with `replacePrefixMatch`; the API server refuses
    the route otherwise.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            for inner, item in items(part, "filters"):
                for field in ("urlRewrite", "requestRedirect"):
                    change = mapping(item, field, "path")
                    kind = text(change, "type") or ""
                    wanted = _FIELDS.get(kind)
                    wrong = [name for name in _FIELDS.values() if name in change and name != wanted]
                    if wanted is not None and (wrong or look(change, wanted) is None):
                        message = f"changing paths: {kind} wants `{wanted}`, found `{', '.join(wrong) or 'nothing'}`"
                        place = (*path, *inner, field, "path")
                        yield Hit(at=route, path=place, message=message, fix=f"write {wanted}")


@rule("route-rewrite-loses-path", Severity.WARNING)
def route_rewrite_loses_path(world: World) -> Iterator[Hit]:
    """A rule for a model server replaces the whole path of every request below a prefix.

    `/llm/chat/completions` and `/llm/models` both become the one path that is written: the engine answers 404, or
    always with the same endpoint. ReplacePrefixMatch keeps the rest.
    """
    for route in routes(world, "HTTPRoute"):
        for path, part in rules(route):
            kinds = {text(match, "path", "type") or "PathPrefix" for _, match in items(part, "matches")}
            for inner, item in items(part, "filters"):
                whole = text(item, "urlRewrite", "path", "replaceFullPath")
                if whole is None or has_hole(whole) or (kinds and kinds != {"PathPrefix"}):
                    continue
                is_api = _API.match(whole) is not None or is_inference_rule(world, route, part)
                if whole not in match_paths(part) and is_api:
                    message = f"changing paths: every request below the prefix becomes `{whole}`"
                    place = (*path, *inner, "urlRewrite", "path")
                    yield Hit(at=route, path=place, message=message, fix="use ReplacePrefixMatch")
