"""Routes of Traefik: rules that it cannot read, and ports that a Service does not have.

Source: Traefik's reference of routers and of its Kubernetes CRD provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.references import is_named
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import shown
from provisioner.lint.values import has_hole, items, literal, look, text, whole
from provisioner.lint.world import Object, World

_GROUPS = ("traefik.io", "traefik.containo.us")
_MATCHERS = (
    *("Host", "HostRegexp", "Path", "PathPrefix", "PathRegexp", "Method", "Header", "HeaderRegexp", "Headers"),
    *("HeadersRegexp", "Query", "QueryRegexp", "ClientIP", "HostHeader", "HostSNI", "HostSNIRegexp", "ALPN"),
)
_CALL = re.compile(r"(\w+)\(\s*([^)]?)")


def _routes(world: World) -> Iterator[Object]:
    return (found for found in world.of_kind("IngressRoute") if found.group in _GROUPS)


@rule("traefik-rule-malformed", Severity.ERROR)
def traefik_rule_malformed(world: World) -> Iterator[Hit]:
    """The rule of a Traefik route is none: a value without quotes, or a matcher that there is not.

    It is written Host(`api.example.com`) && PathPrefix(`/v1`). Traefik leaves the route out and answers 404.
    """
    for found in _routes(world):
        for path, item in items(found.value, "spec", "routes"):
            written = text(item, "match") or ""
            for name, first in _CALL.findall(written) if not has_hole(written) else ():
                why = None if first in "`\"'" and first else "its value has no quotes"
                why = f"there is no matcher `{name}`" if name not in _MATCHERS else why
                if why is not None:
                    near = nearest_name(name, _MATCHERS) if name not in _MATCHERS else None
                    message = f"matching requests by `{written}`: {why}"
                    fix = f"did you mean {near}?" if near else "put the value between backquotes"
                    yield Hit(at=found, path=(*path, "match"), message=message, fix=fix)
                    break


@rule("traefik-backend-unknown", Severity.ERROR)
def traefik_backend_unknown(world: World) -> Iterator[Hit]:
    """A Traefik route leads to a Service that is not there, or to a port that it does not have.

    The port is the Service's own, by number or name. Traefik leaves the route out and answers 404.
    """
    for found in _routes(world):
        for base, route in items(found.value, "spec", "routes"):
            for inner, item in items(route, "services"):
                name, space = literal(item, "name"), text(item, "namespace") or found.namespace
                if name is None or look(item, "kind") not in (None, "Service"):
                    continue
                path = (*base, *inner)
                if shown(world).lacks("Service", name, space):
                    near = shown(world).near("Service", name, space)
                    message = f"routing to Service: there is none `{name}`"
                    fix = f"did you mean {near}?" if near else "deliver it"
                    yield Hit(at=found, path=(*path, "name"), message=message, fix=fix)
                service, port = shown(world).find("Service", name, space), look(item, "port")
                ports = [one for _, one in items(service.value, "spec", "ports")] if service else []
                offered = [str(one) for port in ports for one in (whole(port, "port"), text(port, "name")) if one]
                if offered and port is not None and not has_hole(port) and str(port) not in offered:
                    message = f"routing to Service `{name}`: it has no port `{port}`"
                    yield Hit(at=found, path=(*path, "port"), message=message, fix=f"use {', '.join(offered)}")


@rule("traefik-certificate-unknown", Severity.WARNING)
def traefik_certificate_unknown(world: World) -> Iterator[Hit]:
    """A Traefik route takes its certificate from a Secret that no Certificate of the namespace writes.

    Traefik serves its own default certificate instead, which no client trusts. Said where the folder makes other
    certificates in that namespace.
    """
    for found in _routes(world):
        name = literal(found.value, "spec", "tls", "secretName")
        beside = (one for one in world.of_kind("Certificate") if one.namespace == found.namespace)
        made = [literal(one.value, "spec", "secretName") for one in beside]
        if name and made and not is_named(world, "Secret", name, found.namespace):
            near = nearest_name(name, [one for one in made if one])
            message = f"taking certificate: no Certificate of the namespace writes the Secret `{name}`"
            fix = f"did you mean {near}?" if near else "make a Certificate for it"
            yield Hit(at=found, path=("spec", "tls", "secretName"), message=message, fix=fix)
