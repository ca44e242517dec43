"""Envoy Gateway's own kinds: what its policies may be for, and the proxies that Gateways are told to use.

Source: Envoy Gateway's API reference and its guides to policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.rules.routing._routes import gateways
from provisioner.lint.values import items, literal, look
from provisioner.lint.world import Object, World, same_namespace

_GROUP = "gateway.envoyproxy.io"
_TARGETS: Mapping[str, frozenset[str]] = {
    "ClientTrafficPolicy": frozenset(("Gateway", "ListenerSet", "XListenerSet")),
    "BackendTrafficPolicy": frozenset(
        ("Gateway", "HTTPRoute", "GRPCRoute", "TCPRoute", "UDPRoute", "TLSRoute", "ListenerSet", "XListenerSet")
    ),
    "SecurityPolicy": frozenset(("Gateway", "HTTPRoute", "GRPCRoute", "TCPRoute", "ListenerSet", "XListenerSet")),
}


@rule("envoy-policy-for-other-kind", Severity.ERROR)
def envoy_policy_for_other_kind(world: World) -> Iterator[Hit]:
    """A policy of Envoy Gateway is for a kind that it cannot be for.

    A ClientTrafficPolicy is for Gateways, a BackendTrafficPolicy and a SecurityPolicy also for routes. The API server
    refuses any other target.
    """
    for kind, allowed in _TARGETS.items():
        for found in world.of_kind(kind):
            places = [("spec", "targetRef"), *(path for path, _ in items(found.value, "spec", "targetRefs"))]
            for path in places if found.group == _GROUP else ():
                target = literal(found.value, *path, "kind")
                if target is not None and target not in allowed:
                    message = f"applying {kind}: it is for {' or '.join(sorted(allowed)[:3])}, not for `{target}`"
                    yield Hit(
                        at=found, path=(*path, "kind"), message=message, fix="name one of them, or another policy"
                    )


@rule("envoy-proxy-unknown", Severity.ERROR)
def envoy_proxy_unknown(world: World) -> Iterator[Hit]:
    """A Gateway or GatewayClass takes its parameters from an EnvoyProxy that is not there, though others are.

    The Gateway is not accepted (`InvalidParameters`) and serves nothing.
    """
    proxies = [found for found in world.of_kind("EnvoyProxy") if found.group == _GROUP]
    for found in (*gateways(world), *world.of_kind("GatewayClass")) if proxies else ():
        for path in (("spec", "infrastructure", "parametersRef"), ("spec", "parametersRef")):
            yield from _missing(found, path, proxies)


def _missing(found: Object, path: tuple[str, ...], proxies: list[Object]) -> Iterator[Hit]:
    name, space = literal(found.value, *path, "name"), literal(found.value, *path, "namespace") or found.namespace
    near = [one.name for one in proxies if same_namespace(one.namespace, space)]
    if look(found.value, *path, "kind") == "EnvoyProxy" and name and near and name not in near:
        like = nearest_name(name, near)
        message = f"choosing proxy: there is no EnvoyProxy `{name}`"
        fix = f"did you mean {like}?" if like else f"write one of: {', '.join(near)}"
        yield Hit(at=found, path=(*path, "name"), message=message, fix=fix)
