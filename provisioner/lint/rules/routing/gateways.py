"""Gateways by themselves: their class, their versions, client certificates, and lists of listeners from elsewhere.

Listeners are `listeners`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.selectors import namespace_labels, selector
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import GATEWAY_GROUP, gateways, shown
from provisioner.lint.values import items, literal, look, mapping, text
from provisioner.lint.world import Object, World, same_namespace

_CLASSES_OF_CONTROLLERS = {
    "agentgateway",
    "cilium",
    "istio",
    "istio-remote",
    "istio-waypoint",
    "kgateway",
    "nginx",
    "traefik",
}
"""Classes that a controller or its chart makes by itself."""
_POLICIES = (
    "BackendTLSPolicy",
    "BackendTrafficPolicy",
    "ClientTrafficPolicy",
    "EnvoyExtensionPolicy",
    "SecurityPolicy",
    "TrafficPolicy",
)
_TARGETS = ("Gateway", "HTTPRoute", "GRPCRoute", "Service", "ListenerSet")
_V1_KINDS: Mapping[str, tuple[str, ...]] = {
    "GatewayClass": ("v1alpha2", "v1beta1"),
    "Gateway": ("v1alpha2", "v1beta1"),
    "HTTPRoute": ("v1alpha2", "v1beta1"),
    "GRPCRoute": ("v1alpha2",),
    "ReferenceGrant": ("v1alpha2",),
    "BackendTLSPolicy": ("v1alpha2", "v1alpha3"),
}


@rule("gateway-class-unknown", Severity.ERROR)
def gateway_class_unknown(world: World) -> Iterator[Hit]:
    """A Gateway is of a class that does not exist.

    No controller takes it up, and it has no status. Only said where the folder holds GatewayClasses; classes that
    controllers make by themselves count as there.
    """
    names = {found.name for found in world.of_kind("GatewayClass")}
    imports = any(
        look(tenant.value, "sync", "fromHost", "gatewayClasses", "enabled") is True for tenant in world.tenants
    )
    for gateway in gateways(world):
        name = literal(gateway.value, "spec", "gatewayClassName")
        is_made = name in _CLASSES_OF_CONTROLLERS or (name or "").startswith("gke-") or imports
        if names and name and name not in names and not is_made:
            near = nearest_name(name, names)
            yield Hit(
                at=gateway,
                path=("spec", "gatewayClassName"),
                message=f"choosing class of Gateway: there is no such GatewayClass: `{name}`",
                fix=f"write `{near}`" if near else f"name one of: {', '.join(sorted(names)[:10])}",
            )


@rule("gateway-api-version-old", Severity.WARNING)
def gateway_api_version_old(world: World) -> Iterator[Hit]:
    """An object of Gateway API uses a version that was replaced by v1.

    GatewayClass, Gateway and HTTPRoute are v1 since Gateway API 1.0, GRPCRoute since 1.1. The alpha versions are not
    served any more, and controllers stop to watch v1beta1.
    """
    for kind, old in _V1_KINDS.items():
        for found in world.of_kind(kind):
            version = found.api_version.rpartition("/")[2]
            if found.group == GATEWAY_GROUP and version in old:
                right = "v1beta1" if kind == "ReferenceGrant" else "v1"
                yield Hit(
                    at=found,
                    path=("apiVersion",),
                    message=f"reading {kind}: the version was replaced: `{version}`",
                    fix=f"write `{GATEWAY_GROUP}/{right}`",
                )


@rule("gateway-pool-version-old", Severity.WARNING)
def gateway_pool_version_old(world: World) -> Iterator[Hit]:
    """An InferencePool uses the experimental API group.

    `inference.networking.x-k8s.io` was replaced by `inference.networking.k8s.io/v1` with release 1.0 of the Inference
    Extension: `selector` became `selector.matchLabels`, `targetPortNumber` a list `targetPorts`, `extensionRef` became
    `endpointPickerRef`. Controllers and routes look for the new group.
    """
    for found in world.of_kind("InferencePool"):
        if found.group == "inference.networking.x-k8s.io":
            yield Hit(
                at=found,
                path=("apiVersion",),
                message=f"reading InferencePool: the API group was replaced: `{found.api_version}`",
                fix="write `inference.networking.k8s.io/v1` and move the fields",
            )


def _validations(gateway: Object) -> Iterator[tuple[FieldPath, Mapping[str, object]]]:
    """Where a Gateway says how it checks client certificates."""
    frontend: FieldPath = ("spec", "tls", "frontend")
    spots: list[FieldPath] = [(*frontend, "default", "validation")]
    spots += [(*path, "tls", "validation") for path, _ in items(gateway.value, *frontend, "perPort")]
    for path in spots:
        if look(gateway.value, *path) is not None:
            yield path, mapping(gateway.value, *path)


@rule("gateway-client-validation-without-ca", Severity.ERROR)
def gateway_client_validation_without_ca(world: World) -> Iterator[Hit]:
    """A Gateway checks client certificates against nothing.

    `validation` needs `caCertificateRefs` to a ConfigMap (or Secret) with the CA in `ca.crt`. Gateway API refuses it
    without.
    """
    for gateway in gateways(world):
        for path, validation in _validations(gateway):
            if not validation.get("caCertificateRefs"):
                yield Hit(
                    at=gateway,
                    path=(*path, "caCertificateRefs"),
                    message=f"checking client certificates: no CA is named: `{gateway.name}`",
                    fix="add `caCertificateRefs` with a ConfigMap that holds `ca.crt`",
                )


@rule("gateway-client-validation-optional", Severity.WARNING)
def gateway_client_validation_optional(world: World) -> Iterator[Hit]:
    """A Gateway lets clients through whose certificate is missing or wrong.

    `mode: AllowInsecureFallback` goes on without a valid certificate; whatever stands behind must check by itself.
    """
    for gateway in gateways(world):
        for path, validation in _validations(gateway):
            if validation.get("mode") == "AllowInsecureFallback":
                yield Hit(
                    at=gateway,
                    path=(*path, "mode"),
                    message="checking client certificates: callers without one pass: `AllowInsecureFallback`",
                    fix="write `AllowValidOnly`, or leave `mode` out",
                )


@rule("gateway-client-validation-misplaced", Severity.ERROR)
def gateway_client_validation_misplaced(world: World) -> Iterator[Hit]:
    """A Gateway asks for client certificates in a field that does not exist any more.

    `listeners[].tls.frontendValidation` was experimental and became `spec.tls.frontend` in Gateway API 1.4. The API
    server drops the old field, and everybody gets in without a certificate.
    """
    for gateway in gateways(world):
        for path, listener in items(gateway.value, "spec", "listeners"):
            if look(listener, "tls", "frontendValidation") is not None:
                yield Hit(
                    at=gateway,
                    path=(*path, "tls", "frontendValidation"),
                    message=f"checking client certificates: the field is dropped, listener: `{look(listener, 'name')}`",
                    fix="write `spec.tls.frontend.default.validation`",
                )


@rule("gateway-client-ca-unknown", Severity.WARNING)
def gateway_client_ca_unknown(world: World) -> Iterator[Hit]:
    """A Gateway checks client certificates against a CA that is not there.

    The folder has ConfigMaps of that namespace, but not this one. Without the CA the listener gets ResolvedRefs False
    and lets nobody in. One that trust-manager or cert-manager writes is not shown by the folder.
    """
    for gateway in gateways(world):
        for path, validation in _validations(gateway):
            for inner, item in items(validation, "caCertificateRefs"):
                name, home = literal(item, "name"), text(item, "namespace") or gateway.namespace
                seen = [found.name for found in world.of_kind("ConfigMap") if same_namespace(found.namespace, home)]
                is_made = world.has("Bundle") or look(item, "kind") != "ConfigMap"
                if name and seen and name not in seen and not is_made:
                    yield Hit(
                        at=gateway,
                        path=(*path, *inner, "name"),
                        message=f"checking client certificates: there is no such ConfigMap: `{name}`",
                        fix=f"name one of: {', '.join(sorted(set(seen))[:5])}, or deliver it",
                    )


@rule("gateway-policy-without-target", Severity.ERROR)
def gateway_policy_without_target(world: World) -> Iterator[Hit]:
    """A policy of Gateway API is for a route, Gateway or Service that does not exist.

    Policies reach objects of their own namespace only; one that finds none does nothing: a timeout, a limit or a
    check of keys is simply missing. Only said where the folder holds objects of that kind and namespace.
    """
    for policy in world.of_kind(*_POLICIES):
        single = mapping(policy.value, "spec", "targetRef")
        targets = [(("spec", *path), item) for path, item in items(policy.value.get("spec"), "targetRefs")]
        for path, target in [*targets, (("spec", "targetRef"), single)]:
            kind, name = literal(target, "kind"), literal(target, "name")
            if kind not in _TARGETS or name is None or world.find(kind, name, namespace=policy.namespace):
                continue
            names = [found.name for found in world.of_kind(kind) if same_namespace(found.namespace, policy.namespace)]
            is_elsewhere = any(found.name == name for found in world.of_kind(kind))
            if names or is_elsewhere:
                near = nearest_name(name, names)
                yield Hit(
                    at=policy,
                    path=(*path, "name"),
                    message=f"applying {policy.kind}: its namespace has no such {kind}: `{name}`",
                    fix=f"write `{near}`" if near else f"name a {kind} of the policy's own namespace",
                )


@rule("gateway-of-listener-set-unknown", Severity.ERROR)
def gateway_of_listener_set_unknown(world: World) -> Iterator[Hit]:
    """A ListenerSet adds listeners to a Gateway that does not exist.

    Its listeners are never opened. Only said where the folder holds Gateways of that namespace, or one of that name in
    another.
    """
    there = shown(world)
    for found in world.of_kind("ListenerSet", "XListenerSet"):
        name = literal(found.value, "spec", "parentRef", "name")
        namespace = text(found.value, "spec", "parentRef", "namespace") or found.namespace
        if name is None or there.find("Gateway", name, namespace):
            continue
        other = there.elsewhere("Gateway", name, namespace)
        if other or there.lacks("Gateway", name, namespace):
            near = there.near("Gateway", name, namespace)
            yield Hit(
                at=found,
                path=("spec", "parentRef", "name"),
                message=f"adding listeners: no such Gateway in namespace `{namespace or '(default)'}`: `{name}`",
                fix=f"write `namespace: {other}`"
                if other
                else f"write `{near}`"
                if near
                else "name a Gateway that exists",
            )


@rule("gateway-refuses-listener-set", Severity.ERROR)
def gateway_refuses_listener_set(world: World) -> Iterator[Hit]:
    """A ListenerSet adds listeners to a Gateway that does not allow it.

    `spec.allowedListeners.namespaces.from` of the Gateway is `None` when it is left out; the ListenerSet is not
    accepted, reason NotAllowed (Gateway API, ListenerSet).
    """
    for found in world.of_kind("ListenerSet", "XListenerSet"):
        name = literal(found.value, "spec", "parentRef", "name")
        namespace = text(found.value, "spec", "parentRef", "namespace") or found.namespace
        gateway = shown(world).find("Gateway", name, namespace) if name else None
        reason = _refuses(world, gateway, found) if gateway else None
        if reason:
            yield Hit(
                at=found,
                path=("spec", "parentRef"),
                message=f"adding listeners: {reason}: `{name}`",
                fix="set `spec.allowedListeners.namespaces.from` of the Gateway to `Same`, `Selector` or `All`",
            )


def _refuses(world: World, gateway: Object, found: Object) -> str | None:
    allowed = mapping(gateway.value, "spec", "allowedListeners", "namespaces")
    choice = allowed.get("from", "None")
    if choice == "None":
        return "the Gateway allows no other listeners"
    is_other = None not in (gateway.namespace, found.namespace) and gateway.namespace != found.namespace
    if choice == "Same" and is_other:
        return "the Gateway allows its own namespace only"
    home = world.find("Namespace", found.namespace) if found.namespace else None
    wanted = selector(allowed.get("selector"))
    if choice == "Selector" and home and wanted and not wanted.matches(namespace_labels(home)):
        return "the Gateway's selector does not choose the namespace"
    return None
