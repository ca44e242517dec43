"""Ingresses whatever controller serves them: class, backends, TLS and paths.

What ingress-nginx makes of its annotations is `ingress_nginx`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._ingresses import IngressPath, ingress_paths, ingresses
from provisioner.lint.rules.routing._routes import is_address, serves_models, shown
from provisioner.lint.values import has_hole, items, literal, look, mapping, text, whole
from provisioner.lint.world import Object, World

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def _backends(ingress: Object) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    default = mapping(ingress.value, "spec", "defaultBackend", "service")
    if default:
        yield ("spec", "defaultBackend", "service"), default
    for one in ingress_paths(ingress):
        service = mapping(one.value, "backend", "service")
        if service:
            yield (*one.path, "backend", "service"), service


@rule("ingress-backend-unknown", Severity.ERROR)
def ingress_backend_unknown(world: World) -> Iterator[Hit]:
    """An Ingress leads to a Service that does not exist.

    The Service must be in the Ingress's own namespace. Requests are answered with 503. Only said where the folder shows
    Services of that namespace.
    """
    there = shown(world)
    for ingress in ingresses(world):
        for path, service in _backends(ingress):
            name = literal(service, "name")
            if name and not is_address(name) and there.lacks("Service", name, ingress.namespace):
                near = there.near("Service", name, ingress.namespace)
                other = there.elsewhere("Service", name, ingress.namespace)
                yield Hit(
                    at=ingress,
                    path=(*path, "name"),
                    message=f"routing to Service: namespace `{ingress.namespace or '(default)'}` has none: `{name}`",
                    fix=f"write `{near}`"
                    if near
                    else f"move the Ingress to namespace `{other}`"
                    if other
                    else "name a Service of the namespace",
                )


@rule("ingress-backend-elsewhere", Severity.WARNING)
def ingress_backend_elsewhere(world: World) -> Iterator[Hit]:
    """An Ingress leads to a Service of a name that the folder holds in another namespace only.

    An Ingress reaches Services of its own namespace and no others: requests are answered with 503. Said where the
    folder shows nothing of the Ingress's namespace; a Service of the same name may be there all the same.
    """
    there = shown(world)
    for ingress in ingresses(world):
        for path, service in _backends(ingress):
            name, own = literal(service, "name"), ingress.namespace
            if not name or own is None or there.find("Service", name, own) or there.lacks("Service", name, own):
                continue
            spaces = {found.namespace for found in there.named("Service", name)}
            if len(spaces) == 1:
                other = spaces.pop()
                message = f"routing to Service {name}: it is in namespace `{other}`, the Ingress in `{own}`"
                fix = f"move the Ingress to namespace `{other}`"
                yield Hit(at=ingress, path=(*path, "name"), message=message, fix=fix)


@rule("ingress-exact-misses-api", Severity.WARNING)
def ingress_exact_misses_api(world: World) -> Iterator[Hit]:
    """An Ingress leads one path to a model server, and the API is below it.

    `Exact` matches letter by letter: `/v1` is not `/v1/chat/completions`, and every call is answered with 404.
    """
    for ingress in ingresses(world):
        for one in ingress_paths(ingress):
            value = literal(one.value, "path") or ""
            name = literal(one.value, "backend", "service", "name")
            is_folder = text(one.value, "pathType") == "Exact" and value.rstrip("/") == "/v1"
            if is_folder and serves_models(world, name, ingress.namespace):
                message = f"matching path: Exact takes nothing below it: `{value}`"
                yield Hit(at=ingress, path=(*one.path, "pathType"), message=message, fix="write `pathType: Prefix`")


@rule("ingress-backend-by-address", Severity.ERROR)
def ingress_backend_by_address(world: World) -> Iterator[Hit]:
    """An Ingress names its Service by a DNS name or an address.

    `service.name` is the name of a Service of the Ingress's own namespace; there is no way into another namespace but a
    Service of type ExternalName there.
    """
    for ingress in ingresses(world):
        for path, service in _backends(ingress):
            name = literal(service, "name")
            if name and is_address(name):
                yield Hit(
                    at=ingress,
                    path=(*path, "name"),
                    message=f"routing to Service: this is no name of one: `{name}`",
                    fix="name a Service of the Ingress's namespace",
                )


@rule("ingress-backend-port-unknown", Severity.ERROR)
def ingress_backend_port_unknown(world: World) -> Iterator[Hit]:
    """An Ingress leads to a port that the Service does not have.

    `port.number` and `port.name` are the Service's, not the pod's. Requests are answered with 503.
    """
    there = shown(world)
    for ingress in ingresses(world):
        for path, backend in _backends(ingress):
            name = literal(backend, "name")
            service = there.find("Service", name, ingress.namespace) if name else None
            if service is None or not isinstance(look(service.value, "spec", "ports"), list):
                continue
            number, port_name = whole(backend, "port", "number"), literal(backend, "port", "name")
            ports = [(whole(item, "port"), text(item, "name")) for _, item in items(service.value, "spec", "ports")]
            if any(port is None for port, _ in ports):
                continue
            is_lost = number is not None and number not in [port for port, _ in ports]
            is_lost = is_lost or (
                number is None and port_name is not None and port_name not in [one for _, one in ports]
            )
            if is_lost:
                yield Hit(
                    at=ingress,
                    path=(*path, "port"),
                    message=f"routing to Service `{name}`: it has no such port: `{number or port_name}`",
                    fix=f"write one of: {', '.join(str(label or port) for port, label in ports)}",
                )


@rule("ingress-without-class", Severity.WARNING)
def ingress_without_class(world: World) -> Iterator[Hit]:
    """An Ingress does not say which controller serves it.

    Without `ingressClassName` the cluster's default class serves it, where there is one; with several controllers it is
    served twice or not at all.
    """
    has_default = any(found.annotations.get(_DEFAULT_CLASS) == "true" for found in world.of_kind("IngressClass"))
    for ingress in ingresses(world):
        has_class = (
            look(ingress.value, "spec", "ingressClassName") is not None or _CLASS_ANNOTATION in ingress.annotations
        )
        if not has_class and not has_default and mapping(ingress.value, "spec"):
            yield Hit(
                at=ingress,
                path=("spec",),
                message=f"serving Ingress: it names no class: `{ingress.name}`",
                fix="set `spec.ingressClassName`",
            )


@rule("ingress-class-annotation", Severity.WARNING)
def ingress_class_annotation(world: World) -> Iterator[Hit]:
    """An Ingress names its class in the annotation of old.

    `kubernetes.io/ingress.class` is deprecated since Kubernetes 1.18, and some controllers do not look at it any more.
    """
    for ingress in ingresses(world):
        if _CLASS_ANNOTATION in ingress.annotations and not look(ingress.value, "spec", "ingressClassName"):
            yield Hit(
                at=ingress,
                path=("metadata", "annotations", _CLASS_ANNOTATION),
                message=f"serving Ingress: the annotation is deprecated: `{_CLASS_ANNOTATION}`",
                fix=f"set `spec.ingressClassName: {ingress.annotations[_CLASS_ANNOTATION]}`",
            )


@rule("ingress-class-twice", Severity.ERROR)
def ingress_class_twice(world: World) -> Iterator[Hit]:
    """An Ingress names its class twice, in the field and in the annotation.

    The API server refuses to create such an Ingress.
    """
    for ingress in ingresses(world):
        if _CLASS_ANNOTATION in ingress.annotations and look(ingress.value, "spec", "ingressClassName"):
            yield Hit(
                at=ingress,
                path=("metadata", "annotations", _CLASS_ANNOTATION),
                message=f"serving Ingress: annotation and `ingressClassName` are both set: `{ingress.name}`",
                fix="remove the annotation",
            )


@rule("ingress-class-unknown", Severity.ERROR)
def ingress_class_unknown(world: World) -> Iterator[Hit]:
    """An Ingress is of a class that does not exist.

    No controller takes it up. Only said where the folder holds IngressClasses.
    """
    names = {found.name for found in world.of_kind("IngressClass")}
    for ingress in ingresses(world):
        name = literal(ingress.value, "spec", "ingressClassName")
        if names and name and name not in names:
            near = nearest_name(name, names)
            yield Hit(
                at=ingress,
                path=("spec", "ingressClassName"),
                message=f"serving Ingress: there is no such IngressClass: `{name}`",
                fix=f"write `{near}`" if near else f"name one of: {', '.join(sorted(names))}",
            )


@rule("ingress-host-without-tls", Severity.WARNING)
def ingress_host_without_tls(world: World) -> Iterator[Hit]:
    """An Ingress has TLS, but not for one of its hosts.

    That host is served with the controller's own certificate, which no client trusts, or without TLS. A wildcard covers
    one label.
    """
    for ingress in ingresses(world):
        entries = [item for _, item in items(ingress.value, "spec", "tls")]
        hosts = [host for item in entries for _, host in items(item, "hosts")]
        if (
            not entries
            or any(not _is_known_text(host) for host in hosts)
            or any(not look(item, "hosts") for item in entries)
        ):
            continue
        for path, item in items(ingress.value, "spec", "rules"):
            host = literal(item, "host")
            if host and not any(
                host == one or (one.startswith("*.") and host.partition(".")[2] == one[2:]) for one in hosts
            ):
                yield Hit(
                    at=ingress,
                    path=(*path, "host"),
                    message=f"serving TLS: no entry of `tls` is for the host: `{host}`",
                    fix=f"add `{host}` to `spec.tls[].hosts`",
                )


def _is_known_text(value: Any) -> bool:
    """Whether a list item is a text that is known."""
    return isinstance(value, str) and not has_hole(value)


@rule("ingress-path-malformed", Severity.ERROR)
def ingress_path_malformed(world: World) -> Iterator[Hit]:
    """A path of an Ingress does not begin with a slash.

    With `pathType` Exact or Prefix the API server refuses it.
    """
    for ingress in ingresses(world):
        for one in ingress_paths(ingress):
            value = literal(one.value, "path")
            if value and not value.startswith("/") and text(one.value, "pathType") != "ImplementationSpecific":
                yield Hit(
                    at=ingress,
                    path=(*one.path, "path"),
                    message=f"matching path: it does not begin with `/`: `{value}`",
                    fix=f"write `/{value}`",
                )


@rule("ingress-path-with-pattern", Severity.ERROR)
def ingress_path_with_pattern(world: World) -> Iterator[Hit]:
    """A path of an Ingress holds a pattern although its type takes it letter by letter.

    Exact and Prefix know no `*` and no groups. ingress-nginx takes patterns with `pathType: ImplementationSpecific`
    only (and refuses others by its strict validation of paths), other controllers have their own.
    """
    for ingress in ingresses(world):
        uses_patterns = ingress.annotations.get("nginx.ingress.kubernetes.io/use-regex") == "true"
        is_alb = any(key.startswith("alb.ingress.kubernetes.io/") for key in ingress.annotations)
        for one in ingress_paths(ingress):
            value, kind = literal(one.value, "path"), text(one.value, "pathType")
            is_pattern = value is not None and re.search(r"[*()$|\[\]^]", value) is not None
            if is_pattern and kind in ("Exact", "Prefix") and not uses_patterns and not is_alb:
                yield Hit(
                    at=ingress,
                    path=(*one.path, "path"),
                    message=f"matching path by {kind}: patterns are taken letter by letter: `{value}`",
                    fix="write a plain prefix, or `pathType: ImplementationSpecific` and the controller's switch",
                )


@rule("ingress-path-twice", Severity.WARNING)
def ingress_path_twice(world: World) -> Iterator[Hit]:
    """Two Ingresses claim the same host and path.

    Which of them gets the requests is up to the controller: ingress-nginx refuses the second one, others take the
    older.
    """
    seen: dict[tuple[Any, ...], IngressPath] = {}
    for ingress in ingresses(world):
        kind = literal(ingress.value, "spec", "ingressClassName") or ingress.annotations.get(_CLASS_ANNOTATION)
        if any(key.endswith("/canary") for key in ingress.annotations):
            continue
        for one in ingress_paths(ingress):
            host = look(ingress.value, *one.path[:3], "host")
            value = literal(one.value, "path") or "/"
            if host is not None and one.host is None:
                continue
            key = (kind, one.host, value.rstrip("/") or "/", text(one.value, "pathType"))
            first = seen.setdefault(key, one)
            if first is not one and (first.ingress is ingress or first.ingress.name != ingress.name):
                yield Hit(
                    at=ingress,
                    path=(*one.path, "path"),
                    message=f"claiming path of `{one.host}`: {first.ingress.title} claims it too: `{value}`",
                    fix="remove one of both",
                )


@rule("ingress-without-rules", Severity.ERROR)
def ingress_without_rules(world: World) -> Iterator[Hit]:
    """An Ingress has neither rules nor a default backend.

    The API server refuses it.
    """
    for ingress in ingresses(world):
        spec = ingress.value.get("spec")
        if not isinstance(spec, Mapping) or not (spec.get("rules") or spec.get("defaultBackend")):
            yield Hit(
                at=ingress,
                path=("spec",),
                message=f"reading Ingress: it has no rules and no default backend: `{ingress.name}`",
                fix="add `rules`",
            )


@rule("ingress-backend-port-ambiguous", Severity.ERROR)
def ingress_backend_port_ambiguous(world: World) -> Iterator[Hit]:
    """An Ingress names the port of a Service by name and by number, or not at all.

    The API server refuses it: `cannot set both port name & port number`.
    """
    for ingress in ingresses(world):
        for path, service in _backends(ingress):
            given = [key for key in ("name", "number") if look(service, "port", key) is not None]
            if len(given) != 1 and literal(service, "name") is not None and not has_hole(look(service, "port")):
                fact = "by name and by number" if given else "not at all"
                message = f"routing to {literal(service, 'name')}: the port is told {fact}"
                yield Hit(at=ingress, path=(*path, "port"), message=message, fix="write one of `name` and `number`")


@rule("ingress-tls-secret-malformed", Severity.ERROR)
def ingress_tls_secret_malformed(world: World) -> Iterator[Hit]:
    """An Ingress names the Secret of its certificate in a way that no Secret can be called.

    The Secret stands in the Ingress's own namespace and is named without it; the API server refuses a slash.
    """
    for ingress in ingresses(world):
        for path, entry in items(ingress.value, "spec", "tls"):
            name = literal(entry, "secretName")
            if name and not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name):
                message = f"serving TLS: no Secret can be called so: `{name}`"
                fix = f"put it into this namespace and write {name.rpartition('/')[2]}" if "/" in name else "correct it"
                yield Hit(at=ingress, path=(*path, "secretName"), message=message, fix=fix)
