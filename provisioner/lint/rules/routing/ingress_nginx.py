"""Ingresses of ingress-nginx in front of model servers: timeouts, bodies, streams, snippets, misspelt annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.model_names import sounds_like_inference
from provisioner.lint.joins.slips import is_slip
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._ingresses import ingress_paths, ingresses
from provisioner.lint.rules.routing._routes import (
    is_inference_path,
    is_quiet_path,
    serves_models,
)
from provisioner.lint.values import has_hole, literal, look, mapping, text
from provisioner.lint.world import Object, World

_PREFIX = "nginx.ingress.kubernetes.io/"
_TIMEOUTS = ("proxy-read-timeout", "proxy-send-timeout", "proxy-connect-timeout", "proxy-next-upstream-timeout")
_SIZES = ("proxy-body-size", "proxy-buffer-size", "client-body-buffer-size", "proxy-max-temp-file-size")
_SHORTEST_GENERATION_SECONDS = 60
_ANNOTATIONS = (
    *_TIMEOUTS,
    "affinity",
    "affinity-mode",
    "app-root",
    "auth-realm",
    "auth-response-headers",
    "auth-secret",
    "auth-signin",
    "auth-snippet",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "auth-tls-verify-depth",
    "auth-type",
    "auth-url",
    "backend-protocol",
    "canary",
    "canary-by-header",
    "canary-weight",
    "client-body-buffer-size",
    "configuration-snippet",
    "cors-allow-headers",
    "cors-allow-methods",
    "cors-allow-origin",
    "custom-http-errors",
    "enable-cors",
    "force-ssl-redirect",
    "limit-connections",
    "limit-rpm",
    "limit-rps",
    "load-balance",
    "permanent-redirect",
    "proxy-body-size",
    "proxy-buffer-size",
    "proxy-buffering",
    "proxy-buffers-number",
    "proxy-http-version",
    "proxy-max-temp-file-size",
    "proxy-next-upstream",
    "proxy-next-upstream-tries",
    "proxy-request-buffering",
    "proxy-ssl-secret",
    "proxy-ssl-verify",
    "rewrite-target",
    "server-alias",
    "server-snippet",
    "service-upstream",
    "ssl-passthrough",
    "ssl-redirect",
    "stream-snippet",
    "upstream-hash-by",
    "upstream-vhost",
    "use-regex",
    "whitelist-source-range",
    "denylist-source-range",
)


def _path(name: str) -> FieldPath:
    return "metadata", "annotations", f"{_PREFIX}{name}"


def _is_nginx(ingress: Object) -> bool:
    name = (
        text(ingress.value, "spec", "ingressClassName") or ingress.annotations.get("kubernetes.io/ingress.class") or ""
    )
    if any(key.startswith("nginx.org/") for key in ingress.annotations):
        return False  # the controller of F5, which has annotations of its own
    return "nginx" in name or any(key.startswith(_PREFIX) for key in ingress.annotations)


def _serves_inference(world: World, ingress: Object) -> bool:
    for one in ingress_paths(ingress):
        name = literal(one.value, "backend", "service", "name")
        answer = serves_models(world, name, ingress.namespace)
        path = literal(one.value, "path") or "/"
        if is_quiet_path(path):
            continue
        if answer or (answer is None and (is_inference_path(path) or sounds_like_inference(ingress.name, name))):
            return True
    return False


def _model_ingresses(world: World) -> Iterator[Object]:
    for ingress in ingresses(world):
        if _is_nginx(ingress) and _serves_inference(world, ingress):
            yield ingress


@rule("ingress-annotation-prefix-misspelt", Severity.WARNING)
def ingress_annotation_prefix_misspelt(world: World) -> Iterator[Hit]:
    """An annotation of an Ingress is meant for ingress-nginx, and its prefix is misspelt.

    Annotations that nobody knows are kept and do nothing: what was to be set keeps its default.
    """
    for ingress in ingresses(world):
        for key in ingress.annotations:
            prefix = key.partition("/")[0]
            if is_slip(prefix, _PREFIX.rstrip("/")):
                message = f"reading annotation of {ingress.name}: no controller reads this prefix: `{prefix}`"
                path = ("metadata", "annotations", key)
                yield Hit(at=ingress, path=path, message=message, fix=f"write {_PREFIX}{key.partition('/')[2]}")


@rule("ingress-without-timeout", Severity.WARNING)
def ingress_without_timeout(world: World) -> Iterator[Hit]:
    """An Ingress to a model server leaves its read timeout at 60 seconds.

    ingress-nginx gives up when the server sends nothing for `proxy-read-timeout`, 60 seconds by default: an answer
    that is not streamed, or a long prompt before the first token, ends in 504 (ingress-nginx, Annotations, Custom
    timeouts).
    """
    for ingress in _model_ingresses(world):
        if f"{_PREFIX}proxy-read-timeout" not in mapping(ingress.value, "metadata", "annotations"):
            yield Hit(
                at=ingress,
                path=("metadata",),
                message=f"routing inference: the read timeout is left at 60 seconds: `{ingress.name}`",
                fix=f'set annotation `{_PREFIX}proxy-read-timeout: "600"`',
            )


@rule("ingress-timeout-short", Severity.WARNING)
def ingress_timeout_short(world: World) -> Iterator[Hit]:
    """An Ingress to a model server gives up before a long generation begins to answer.

    Less than 60 seconds between two reads ends requests that wait in the queue or read a long prompt.
    """
    for ingress in _model_ingresses(world):
        written = ingress.annotations.get(f"{_PREFIX}proxy-read-timeout", "")
        if written.isdecimal() and 0 < int(written[:9]) < _SHORTEST_GENERATION_SECONDS:
            yield Hit(
                at=ingress,
                path=_path("proxy-read-timeout"),
                message=f"routing inference: the read timeout is shorter than a generation, seconds: `{written}`",
                fix='allow some minutes, such as `"600"`',
            )


@rule("ingress-timeout-malformed", Severity.ERROR)
def ingress_timeout_malformed(world: World) -> Iterator[Hit]:
    """A timeout of ingress-nginx is no whole number in quotes.

    The annotations hold seconds without a unit; `600s` or `10m` cannot be read and the default of 60 seconds stays
    (ingress-nginx, Annotations, Custom timeouts). An annotation that is no text is refused by the API server.
    """
    for ingress in ingresses(world):
        for name in _TIMEOUTS:
            value = look(ingress.value, *_path(name))
            is_open = has_hole(value)
            if value is not None and not is_open and not (isinstance(value, str) and value.isdecimal()):
                yield Hit(
                    at=ingress,
                    path=_path(name),
                    message=f"reading `{name}`: it is no whole number of seconds in quotes: `{value}`",
                    fix='write seconds without a unit, such as `"600"`',
                )


@rule("ingress-size-malformed", Severity.ERROR)
def ingress_size_malformed(world: World) -> Iterator[Hit]:
    """A size of ingress-nginx is written as nginx does not read it.

    nginx takes digits with k, m or g behind them, such as `64m`; `64MB` or `64Mi` ends the check of the configuration,
    and the controller keeps the old one for all Ingresses.
    """
    for ingress in ingresses(world):
        for name in _SIZES:
            value = literal(ingress.value, *_path(name))
            if value is not None and not re.fullmatch(r"[0-9]+[kKmMgG]?", value):
                message = f"reading `{name}`: nginx reads no such size: `{value}`"
                yield Hit(at=ingress, path=_path(name), message=message, fix="write such as 64m")


@rule("ingress-body-limit", Severity.INFO)
def ingress_body_limit(world: World) -> Iterator[Hit]:
    """An Ingress to a model server leaves the size of a request at 1 MB, or sets it to less than that.

    ingress-nginx answers 413 above `proxy-body-size`, 1 MB by default; images, audio and long prompts are larger.
    """
    for ingress in _model_ingresses(world):
        given = f"{_PREFIX}proxy-body-size" in mapping(ingress.value, "metadata", "annotations")
        written = re.fullmatch(r"([1-9]\d{0,5})(k?)", ingress.annotations.get(f"{_PREFIX}proxy-body-size", "").lower())
        is_small = written is not None and int(written[1]) * (1024 if written[2] else 1) < 2**20
        if not given or is_small:
            yield Hit(
                at=ingress,
                path=_path("proxy-body-size") if given else ("metadata",),
                message=f"routing inference: requests above {written[0] if written else '1 MB'} are refused: "
                f"`{ingress.name}`",
                fix=f'set annotation `{_PREFIX}proxy-body-size: "32m"`',
            )


@rule("ingress-buffers-streams", Severity.WARNING)
def ingress_buffers_streams(world: World) -> Iterator[Hit]:
    """An Ingress to a model server collects the answer before it passes it on.

    `proxy-buffering: "on"` holds back the tokens of a stream until a buffer is full: the caller sees nothing, then all.
    """
    for ingress in _model_ingresses(world):
        if ingress.annotations.get(f"{_PREFIX}proxy-buffering") == "on":
            yield Hit(
                at=ingress,
                path=_path("proxy-buffering"),
                message="streaming answers: the proxy collects them first: `proxy-buffering: on`",
                fix='write `"off"`, or leave it out',
            )


@rule("ingress-snippet", Severity.WARNING)
def ingress_snippet(world: World) -> Iterator[Hit]:
    """An Ingress carries a snippet of nginx configuration.

    Snippets are refused by default since ingress-nginx 1.9, because whoever may write an Ingress can read every
    Secret by one (CVE-2021-25742).
    """
    for ingress in ingresses(world):
        for key in ingress.annotations:
            if key.startswith(_PREFIX) and key.endswith("-snippet"):
                yield Hit(
                    at=ingress,
                    path=("metadata", "annotations", key),
                    message=f"configuring nginx: snippets are refused by default: `{key}`",
                    fix="use an annotation made for it",
                )


@rule("ingress-annotation-misspelt", Severity.ERROR)
def ingress_annotation_misspelt(world: World) -> Iterator[Hit]:
    """An annotation of ingress-nginx is spelt differently and does nothing.

    Unknown annotations are passed over without a word.
    """
    for ingress in ingresses(world):
        for key in ingress.annotations:
            name = key.removeprefix(_PREFIX)
            if not key.startswith(_PREFIX) or name in _ANNOTATIONS:
                continue
            plain = {re.sub(r"[-_.]", "", known): known for known in _ANNOTATIONS}
            exact = plain.get(re.sub(r"[-_.]", "", name.lower()))
            near = exact or nearest_name(name, (*_TIMEOUTS[:3], "proxy-body-size", "proxy-buffering", "rewrite-target"))
            if exact or (near and sorted(near) == sorted(name)) or (near and abs(len(near) - len(name)) == 1):
                yield Hit(
                    at=ingress,
                    path=("metadata", "annotations", key),
                    message=f"reading annotation: ingress-nginx does not know: `{key}`",
                    fix=f"write `{_PREFIX}{near}`",
                )


@rule("ingress-rewrite-without-group", Severity.ERROR)
def ingress_rewrite_without_group(world: World) -> Iterator[Hit]:
    """A rewrite uses a part of the path that no path captures.

    `rewrite-target: /$2` puts in what the second group of the path matched; without such a group everything goes to `/`
    (ingress-nginx, Rewrite).
    """
    for ingress in ingresses(world):
        target = ingress.annotations.get(f"{_PREFIX}rewrite-target", "")
        wanted = max((int(number) for number in re.findall(r"\$([0-9])", target)), default=0)
        for one in ingress_paths(ingress) if wanted else ():
            value = literal(one.value, "path") or "/"
            if value.count("(") < wanted:
                yield Hit(
                    at=ingress,
                    path=(*one.path, "path"),
                    message=f"rewriting to `{target}`: the path has no group {wanted}: `{value}`",
                    fix="write groups, such as `/prefix(/|$)(.*)`, and `pathType: ImplementationSpecific`",
                )


@rule("ingress-nginx-retired", Severity.INFO)
def ingress_nginx_retired(world: World) -> Iterator[Hit]:
    """An Ingress is served by ingress-nginx, which gets no more releases.

    The Kubernetes project announced in November 2025 that ingress-nginx is maintained until March 2026 only, security
    fixes included, and advises Gateway API (kubernetes.io/blog, Ingress NGINX Retirement).
    """
    first = next((found for found in ingresses(world) if any(_PREFIX in key for key in found.annotations)), None)
    if first:
        yield Hit(
            at=first,
            path=("metadata", "annotations"),
            message=f"serving Ingress: ingress-nginx gets no more releases: `{first.name}`",
            fix="plan to move to Gateway API",
        )
