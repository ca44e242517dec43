"""Admission webhooks: whether the API server reaches and trusts them, and whom they are asked about.

Sources: Kubernetes documentation, "Dynamic Admission Control" and its good practices; cert-manager's CA injector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, shown
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.selectors import NAMESPACE_NAME, equality, namespace_matches, selected, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.security._api_resources import wrong_group
from provisioner.lint.values import has_hole, items, literal, mapping, whole
from provisioner.lint.world import Object, World

_KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_INJECT = "cert-manager.io/inject-ca-from"
_PORT = 443
"""Where the API server asks if the configuration names no port."""
_MAKERS = {"pods", "replicasets", "*", "*/*"}
"""Resources without which a Deployment's pods cannot come back."""


def _asked(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    """Every Service that the API server asks: of webhooks, of aggregated APIs, for conversion."""
    for found, path, item in _webhooks(world):
        yield found, (*path, "clientConfig", "service"), mapping(item, "clientConfig", "service")
    for found in world.of_kind("APIService"):
        yield found, ("spec", "service"), mapping(found.value, "spec", "service")
    for found in world.of_kind("CustomResourceDefinition"):
        place = ("spec", "conversion", "webhook", "clientConfig", "service")
        yield found, place, mapping(found.value, *place)


def _webhooks(world: World) -> Iterator[tuple[Object, FieldPath, Mapping[str, Any]]]:
    for found in world.of_kind(*_KINDS):
        for path, item in items(found.value, "webhooks"):
            if isinstance(item, Mapping):
                yield found, path, item


def _service(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and namespace of the Service that answers a webhook, None where it is not known."""
    return _named(mapping(item, "clientConfig", "service"))


def _named(service: Mapping[str, Any]) -> tuple[str, str] | None:
    name, namespace = literal(service, "name"), literal(service, "namespace")
    return (name, namespace) if name and namespace else None


@rule("webhook-port-unknown", Severity.ERROR)
def webhook_port_unknown(world: World) -> Iterator[Hit]:
    """The API server asks a webhook, or an aggregated API, at a port that its Service does not have.

    It asks port 443 of the Service where `port` says nothing; every request that the webhook is about then fails, or
    passes unseen with failurePolicy Ignore.
    """
    for found, path, asked in _asked(world):
        named = _named(asked)
        service = world.find("Service", named[0], namespace=named[1]) if named else None
        ports = [whole(port, "port") for _, port in items(service.value, "spec", "ports")] if service else []
        port = _PORT if asked.get("port") is None else asked["port"]
        if service is not None and ports and None not in ports and isinstance(port, int) and port not in ports:
            message = f"asking webhook: {service.title} has no such port: `{port}`"
            fix = f"write `port: {ports[0]}` beside the Service's name, or let the Service offer {port}"
            yield Hit(at=found, path=path, message=message, fix=fix)


@rule("webhook-service-unknown", Severity.ERROR)
def webhook_service_unknown(world: World) -> Iterator[Hit]:
    """The API server asks a Service that its namespace does not have, though the folder shows others there.

    Every request that the webhook is about fails with `service … not found`, or passes unseen with failurePolicy
    Ignore; an aggregated API stays unavailable, and with it what reads its metrics.
    """
    for found, path, asked in _asked(world):
        named = _named(asked)
        beside = [one.name for one in world.of_kind("Service") if named and one.namespace == named[1]]
        if named is None or named[0] in beside:
            continue
        elsewhere = [one for one in world.of_kind("Service") if one.name == named[0]]
        near = nearest_name(named[0], beside) or (beside[0] if len(beside) == 1 else None)
        if any(one.namespace is None for one in elsewhere) or not (near or elsewhere):
            continue
        message = f"asking webhook: namespace {named[1]} has no such Service: {shown(named[0])}"
        fix = f"did you mean {near}?" if near else f"it is in namespace {elsewhere[0].namespace}"
        yield Hit(at=found, path=path, message=message, fix=fix)


@rule("webhook-holds-up-itself", Severity.WARNING)
def webhook_holds_up_itself(world: World) -> Iterator[Hit]:
    """A webhook must be asked before its own pods are made.

    With failurePolicy Fail and no selector that leaves its own namespace out, the pods that answer cannot be made while
    none of them runs: after all nodes were replaced at once nothing starts any more. Leave the namespace out (good
    practices for admission webhooks, "Prevent loops and deadlocks").
    """
    for found, path, item in _webhooks(world):
        named = _service(item)
        if named is None or item.get("failurePolicy", "Fail") != "Fail" or mapping(item, "objectSelector"):
            continue
        service = world.find("Service", named[0], namespace=named[1])
        chosen = equality(mapping(service.value, "spec", "selector")) if service else None
        if chosen is None or chosen.is_empty or not selected(world, chosen, named[1]) or not _makes_pods(item):
            continue
        if not _items(item, "matchConditions") and _asks_about(world, item, named[1]):
            message = f"asking webhook {shown(str(item.get('name')))}: its own pods in {named[1]} wait for it"
            fix = f"leave the namespace out by namespaceSelector: {NAMESPACE_NAME} NotIn [{named[1]}]"
            yield Hit(at=found, path=path, message=message, fix=fix)


def _items(item: Mapping[str, Any], name: str) -> list[Any]:
    """The items of a list of a webhook."""
    return [inner for _, inner in items(item, name)]


def _makes_pods(item: Mapping[str, Any]) -> bool:
    """Whether the webhook is asked before a pod is made."""
    for written in _items(item, "rules"):
        made = {str(one) for one in _items(written, "resources")}
        if made & _MAKERS and {str(one) for one in _items(written, "operations")} & {"CREATE", "*"}:
            return True
    return False


def _asks_about(world: World, item: Mapping[str, Any], namespace: str) -> bool:
    """Whether the webhook is asked about what is made in a namespace, as far as the folder tells."""
    found = selector(item.get("namespaceSelector"))
    if found is None or found.is_empty:
        return True
    space = world.find("Namespace", namespace)
    labels = {NAMESPACE_NAME: namespace, **(mapping(space.value, "metadata", "labels") if space else {})}
    is_told = space is not None or found.keys <= {NAMESPACE_NAME}
    is_told = is_told and all(key == NAMESPACE_NAME or space is not None for key, _, _ in found.expressions)
    return is_told and found.is_certain and found.matches(labels)


@rule("webhook-selects-no-namespace", Severity.WARNING)
def webhook_selects_no_namespace(world: World) -> Iterator[Hit]:
    """A webhook's namespaceSelector selects none of the namespaces that the folder shows.

    Nothing complains: what was to be checked or changed is made as it is. Key and value must be those of the
    Namespaces' own labels. Not said where the folder shows the webhook's own namespace alone.
    """
    own = {named[1] for _, _, item in _webhooks(world) if (named := _service(item))}
    others = any(space.name not in own for space in world.of_kind("Namespace"))
    for found, path, item in _webhooks(world):
        chosen = selector(item.get("namespaceSelector"))
        if others and chosen is not None and chosen.keys and namespace_matches(world, chosen) is False:
            message = f"asking webhook: no namespace of the folder is selected: {shown(str(chosen))}"
            fix = "correct the selector, or label the namespaces"
            yield Hit(at=found, path=(*path, "namespaceSelector"), message=message, fix=fix)


def _injected(world: World) -> Iterator[tuple[Object, FieldPath, str]]:
    """Objects that cert-manager shall put a CA into, and what they name for it."""
    for found in world.of_kind(*_KINDS, "CustomResourceDefinition", "APIService"):
        written = found.annotations.get(_INJECT)
        if written and not has_hole(written):
            yield found, ("metadata", "annotations", _INJECT), written


@rule("webhook-authority-unknown", Severity.ERROR)
def webhook_authority_unknown(world: World) -> Iterator[Hit]:
    """`cert-manager.io/inject-ca-from` names no Certificate.

    Its value is `namespace/name` of a Certificate, not of the Secret that it writes. Otherwise `caBundle` stays empty
    and the API server trusts the webhook as little as anybody: `x509: certificate signed by unknown authority`.
    """
    for found, path, written in _injected(world):
        namespace, slash, name = written.partition("/")
        here = [one for one in world.of_kind("Certificate") if one.namespace in (namespace, None)]
        if not slash or not namespace or not name or "/" in name:
            message = f"trusting webhook: what is named is no `namespace/name`: `{written}`"
            yield Hit(at=found, path=path, message=message, fix="write namespace and name of the Certificate")
        elif here and all(one.name != name for one in here):
            writer = next((one.name for one in here if literal(one.value, "spec", "secretName") == name), None)
            near = writer or nearest_name(name, [one.name for one in here])
            message = f"trusting webhook: namespace {namespace} has no such Certificate: `{name}`"
            fix = f"did you mean {namespace}/{near}?" if near else f"there is: {here[0].name}"
            yield Hit(at=found, path=path, message=message, fix=fix)


@rule("webhook-certificate-for-other-name", Severity.ERROR)
def webhook_certificate_for_other_name(world: World) -> Iterator[Hit]:
    """The certificate of a webhook is not for the name by which the API server asks it.

    It asks `<service>.<namespace>.svc`, and refuses a certificate without this name.
    """
    for found, _, written in _injected(world):
        namespace, _, name = written.partition("/")
        certificate = world.find("Certificate", name, namespace=namespace)
        names = _items(mapping(certificate.value, "spec"), "dnsNames") if certificate else []
        if certificate is None or not names or any(not isinstance(one, str) or has_hole(one) for one in names):
            continue
        for path, item in items(found.value, "webhooks"):
            named = _service(item) if isinstance(item, Mapping) else None
            wanted = f"{named[0]}.{named[1]}.svc" if named else ""
            if named and wanted not in names and f"*.{named[1]}.svc" not in names:
                message = f"trusting webhook: {certificate.title} is not for: `{wanted}`"
                fix = f"add {wanted} to its dnsNames"
                where = (*path, "clientConfig", "service")
                yield Hit(at=found, path=where, message=message, fix=fix)


_LONGEST_WAIT = 30


@rule("webhook-refused", Severity.ERROR)
def webhook_refused(world: World) -> Iterator[Hit]:
    """A webhook has a name without a domain, or a timeout that the API server does not take.

    `should be a domain with at least three segments separated by dots`; a timeout is 1 to 30 seconds. The whole
    configuration is refused.
    """
    for found, path, item in _webhooks(world):
        name, wait = literal(item, "name"), whole(item, "timeoutSeconds")
        if name is not None and name.count(".") < 2:
            message = f"reading webhook: its name is no domain of three parts: `{name}`"
            yield Hit(at=found, path=(*path, "name"), message=message, fix=f"write such as {name}.example.com")
        if wait is not None and not 1 <= wait <= _LONGEST_WAIT:
            message = f"reading webhook: a timeout is 1 to {_LONGEST_WAIT} seconds, found `{wait}`"
            yield Hit(at=found, path=(*path, "timeoutSeconds"), message=message, fix="write 10 or less")


@rule("webhook-matches-nothing", Severity.ERROR)
def webhook_matches_nothing(world: World) -> Iterator[Hit]:
    """A webhook is about a resource that its API groups do not have.

    Resources are plural and lower case (`pods`, not `Pod`), Deployments are in `apps`, pods in the core group "".
    Nothing is checked or changed, and nothing complains.
    """
    for found, path, item in _webhooks(world):
        for place, written in items(item, "rules"):
            groups = [str(group) for group in _items(mapping(written), "apiGroups")]
            for inner, resource in items(written, "resources"):
                why = wrong_group(groups, resource) if isinstance(resource, str) else None
                if why:
                    message = f"asking webhook: nothing is matched by {shown(str(resource))}"
                    yield Hit(at=found, path=(*path, *place, *inner), message=message, fix=why)
