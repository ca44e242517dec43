"""What Argo CD connects to: clusters, chart registries, services for notifications.

Sources: Argo CD's operator manual, "Declarative Setup" and "Notifications"; client-go's check of TLS settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.generated import filled_applications
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, literal, mapping, text
from provisioner.lint.world import Object, World

_TYPE_LABEL = "argocd.argoproj.io/secret-type"
_HERE = ("in-cluster", "https://kubernetes.default.svc")
"""The cluster in which Argo CD itself runs."""
_SUBSCRIBED = re.compile(r"notifications\.argoproj\.io/subscribe\.(?:(?P<trigger>[\w-]+)\.)?(?P<service>[\w-]+)")
"""The trigger may be left out: the default ones then."""


def _secrets(world: World, kind: str) -> Iterator[Object]:
    return (found for found in world.of_kind("Secret") if found.labels.get(_TYPE_LABEL) == kind)


def _entry(secret: Object, name: str) -> str | None:
    return text(secret.value, "stringData", name)


@rule("application-cluster-unknown", Severity.WARNING)
def application_cluster_unknown(world: World) -> Iterator[Hit]:
    """An Application delivers to a cluster of which the folder, which shows others, has no Secret.

    Argo CD answers `there are no clusters with this name`, or that the server is not configured, and the state stays
    Unknown. Clusters that were added by `argocd cluster add` are not in the folder.
    """
    secrets = list(_secrets(world, "cluster"))
    known = {one: [_entry(secret, one) for secret in secrets] for one in ("name", "server")}
    if not secrets or any(None in one or any(has_hole(item) for item in one) for one in known.values()):
        return
    for app in filled_applications(world):
        for field in ("name", "server") if app.is_argo else ():
            written = literal(app.spec, "destination", field)
            names = [str(one).rstrip("/") for one in known[field]]
            if written and written not in _HERE and written.rstrip("/") not in names:
                near = nearest_name(written, names)
                message = f"delivering application `{app.name}`: no cluster Secret here has this {field}: `{written}`"
                fix = f"did you mean {near}?" if near else f"there are: {', '.join(names)[:200]}"
                path = app.at_path("destination", field)
                yield Hit(at=app.at, path=path, message=message, fix=fix)


@rule("argocd-cluster-refused", Severity.ERROR)
def argocd_cluster_refused(world: World) -> Iterator[Hit]:
    """The settings of a cluster's Secret cannot be read, or contradict each other.

    `config` is JSON. With `insecure: true` there can be no `caData`: `specifying a root certificates file with the
    insecure flag is not allowed`. Argo CD cannot connect to the cluster.
    """
    for secret in _secrets(world, "cluster"):
        written = _entry(secret, "config")
        if written is None or has_hole(written) or re.search(r"\$[({]?\w|<", written):
            continue
        path = ("stringData", "config")
        try:
            config: Any = json.loads(written)
        except ValueError as error:
            message = f"connecting cluster `{secret.name}`: config is no JSON: {str(error)[:80]}"
            yield Hit(at=secret, path=path, message=message, fix="write a JSON object in one text")
            continue
        tls = mapping(config, "tlsClientConfig")
        if tls.get("insecure") is True and tls.get("caData"):
            message = f"connecting cluster `{secret.name}`: `insecure` and `caData` exclude each other"
            yield Hit(at=secret, path=path, message=message, fix="remove `insecure`, so that caData counts")


@rule("argocd-registry-unclear", Severity.ERROR)
def argocd_registry_unclear(world: World) -> Iterator[Hit]:
    """A repository Secret for charts names an OCI registry as if it were a server of charts.

    For charts of a registry Argo CD wants `type: helm`, `enableOCI: "true"` and a url without `oci://`; since 3.1 there
    is also `type: oci` with it. Otherwise it asks the registry for an index.yaml: `unsupported protocol scheme`.
    """
    for kind in ("repository", "repo-creds"):
        for secret in _secrets(world, kind):
            url, sort = _entry(secret, "url") or "", _entry(secret, "type")
            if sort == "helm" and url.startswith("oci://") and _entry(secret, "enableOCI") != "true":
                message = f"connecting registry: `type: helm` takes no scheme without enableOCI: `{url}`"
                fix = f'write `enableOCI: "true"` and url {url.removeprefix("oci://")}'
                yield Hit(at=secret, path=("stringData", "url"), message=message, fix=fix)


@rule("argocd-notification-undefined", Severity.ERROR)
def argocd_notification_undefined(world: World) -> Iterator[Hit]:
    """A subscription to notifications names a trigger or service that Argo CD's settings do not define.

    `notifications.argoproj.io/subscribe.<trigger>.<service>` needs `trigger.<trigger>` and `service.<service>` in
    `argocd-notifications-cm`. Nobody is told of anything, and nothing says so but a log.
    """
    settings = [found for found in world.of_kind("ConfigMap") if found.name == "argocd-notifications-cm"]
    keys = {str(key) for found in settings for key in mapping(found.value, "data")}
    for found in world.of_kind("Application", "AppProject") if settings else ():
        for key in found.annotations:
            named = _SUBSCRIBED.fullmatch(key)
            for part, name in named.groupdict().items() if named else ():
                known = [one.rpartition(".")[2] for one in keys if one.startswith(f"{part}.")]
                if name and name not in known and known:
                    near = nearest_name(name, known)
                    message = f"subscribing to notifications: there is no {part} of this name: `{name}`"
                    fix = f"did you mean {near}?" if near else f"there are: {', '.join(sorted(known))[:200]}"
                    yield Hit(at=found, path=("metadata", "annotations", key), message=message, fix=fix)
