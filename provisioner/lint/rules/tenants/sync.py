"""Sync settings of tenant clusters on shared nodes: imported Gateways, DRA, custom resources, contradictions.

Sources: vCluster's validation code (`pkg/config/validation.go`), its documentation of the sync settings, and the
issues named in the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath, dotted
from provisioner.domain.finding import Severity
from provisioner.lint.joins.tenant import brings_nodes, is_on, objects_of, only_tenant, shares_nodes
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import has_hole, is_known, items, literal, look, mapping, texts
from provisioner.lint.world import Object, TenantValues, World

_GATEWAYS: FieldPath = ("sync", "fromHost", "gateways")
_BY_NAME: FieldPath = (*_GATEWAYS, "mappings", "byName")
_NAMESPACE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SIDE = re.compile(rf"{_NAMESPACE}/(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)")
_GATEWAY_GROUP = ".gateway.networking.k8s.io"
_Sides = tuple[FieldPath, str, str]


def _shared(world: World) -> Iterator[TenantValues]:
    return (tenant for tenant in world.tenants if not brings_nodes(tenant))


def _importing(world: World) -> Iterator[TenantValues]:
    return (tenant for tenant in _shared(world) if is_on(tenant.value, *_GATEWAYS, "enabled"))


def _mappings(tenant: TenantValues) -> list[_Sides]:
    """Known mappings: path, Gateway in the control plane cluster, Gateway in the tenant cluster."""
    entries = texts(tenant.value, *_BY_NAME).items()
    return [((*_BY_NAME, host), host, own) for host, own in entries if not has_hole(host) and not has_hole(own)]


@rule("gateway-import-without-mapping", Severity.ERROR)
def gateway_import_without_mapping(world: World) -> Iterator[Hit]:
    """Gateways are imported, but no mapping says which.

    `sync.fromHost.gateways.mappings.byName` must not be empty when the import is on: vCluster refuses to start.
    """
    for tenant in _importing(world):
        if not mapping(tenant.value, *_BY_NAME) and not has_hole(look(tenant.value, *_BY_NAME)):
            message = "importing Gateways: `mappings.byName` is empty"
            fix = 'write `mappings: {byName: {"<namespace>/<gateway>": "<namespace>/<gateway>"}}`'
            yield Hit(at=tenant, path=_GATEWAYS, message=message, fix=fix)


@rule("gateway-mapping-malformed", Severity.ERROR)
def gateway_mapping_malformed(world: World) -> Iterator[Hit]:
    """A Gateway mapping is not `namespace/name` on both sides, or maps all Gateways of a namespace to a single one.

    `ns/*` stands for every Gateway of a namespace and maps to another `ns/*` only.
    """
    for tenant in _importing(world):
        for path, host, own in _mappings(tenant):
            if not _SIDE.fullmatch(host) or not _SIDE.fullmatch(own):
                message = f"importing Gateways: each side wants `namespace/name`, found: `{host}: {own}`"
                yield Hit(
                    at=tenant,
                    path=path,
                    message=message,
                    fix="write namespace and name, or `namespace/*` on both sides",
                )
            elif host.endswith("/*") != own.endswith("/*"):
                message = f"importing Gateways: `*` maps to `*` only, found: `{host}: {own}`"
                yield Hit(at=tenant, path=path, message=message, fix="use `*` on both sides or on none")


@rule("gateway-mapping-overlaps", Severity.ERROR)
def gateway_mapping_overlaps(world: World) -> Iterator[Hit]:
    """Two Gateway mappings overlap.

    A Gateway that two mappings name, by name and by `ns/*`, or two that end at one name, are refused at start.
    """
    for tenant in _importing(world):
        seen: dict[tuple[int, str], set[str]] = {}
        for path, *sides in _mappings(tenant):
            for number, side in enumerate(sides):
                namespace, _, name = side.partition("/")
                names = seen.setdefault((number, namespace), set())
                if name in names or (names and "*" in {name, *names}):
                    message = f"importing Gateways: a mapping before covers the same: `{side}`"
                    yield Hit(
                        at=tenant, path=path, message=message, fix="map every Gateway once, each to a name of its own"
                    )
                names.add(name)


@rule("gateway-override-unmapped", Severity.ERROR)
def gateway_override_unmapped(world: World) -> Iterator[Hit]:
    """An override of an imported Gateway's allowed routes names a Gateway that no mapping imports.

    Overrides point to the Gateway's namespace and name in the control plane cluster; vCluster refuses one that is not
    mapped, since its hostname limits would protect nothing.
    """
    for tenant in _importing(world):
        mapped = {host for _, host, _ in _mappings(tenant)}
        if len(mapped) != len(mapping(tenant.value, *_BY_NAME)):
            continue
        for path, override in items(tenant.value, *_GATEWAYS, "allowedRoutes", "overrides"):
            namespace, name = literal(override, "hostNamespace"), literal(override, "name")
            if namespace and name and not mapped & {f"{namespace}/{name}", f"{namespace}/*"}:
                message = f"limiting imported Gateway: no mapping imports: `{namespace}/{name}`"
                yield Hit(
                    at=tenant, path=path, message=message, fix="name a Gateway of `mappings.byName` (its left side)"
                )


@rule("gateway-namespace-policy", Severity.ERROR)
def gateway_namespace_policy(world: World) -> Iterator[Hit]:
    """The namespaces that may use an imported Gateway are not told properly.

    `from` is All, Same or Selector; with Selector the selector must select something, and it is read with Selector
    only.
    """
    for tenant in _importing(world):
        base = (*_GATEWAYS, "allowedRoutes")
        paths = [(*base, "defaultVirtualNamespacePolicy")]
        paths += [(*path, "virtualNamespacePolicy") for path, _ in items(tenant.value, *base, "overrides")]
        for path in paths:
            policy = mapping(tenant.value, *path)
            source = literal(policy, "from")
            if source and source not in ("All", "Same", "Selector"):
                message = f"limiting imported Gateway: unknown `from`: `{source}`"
                yield Hit(at=tenant, path=(*path, "from"), message=message, fix="use All, Same or Selector")
            elif source == "Selector" and not _selects(policy.get("selector")):
                message = "limiting imported Gateway: `from: Selector` without a selector"
                yield Hit(at=tenant, path=path, message=message, fix="set `selector.matchLabels`")


def _selects(selector: Any) -> bool:
    return any(mapping(selector).get(key) for key in ("matchLabels", "matchExpressions"))


@rule("gateway-import-without-routes", Severity.WARNING)
def gateway_import_without_routes(world: World) -> Iterator[Hit]:
    """Gateways are imported, but no route is synced back.

    An imported Gateway serves routes only when they reach the control plane cluster: that takes
    `sync.toHost.gatewayApi.enabled`, or the switch of the route's kind.
    """
    for tenant in _importing(world):
        kinds = mapping(tenant.value, "sync", "toHost", "gatewayApi")
        switches = [kinds.get("enabled"), *(look(kinds, kind, "enabled") for kind in ("httpRoutes", "tlsRoutes"))]
        if not any(switch in (True, "true") or has_hole(switch) for switch in switches):
            message = "importing Gateways: routes of the tenant cluster are not synced to them"
            yield Hit(
                at=tenant, path=_GATEWAYS, message=message, fix="set `sync.toHost.gatewayApi.httpRoutes.enabled: true`"
            )


@rule("reference-grants-switch", Severity.ERROR)
def reference_grants_switch(world: World) -> Iterator[Hit]:
    """The switch of ReferenceGrant sync is none of auto, true and false.

    vCluster refuses any other word at start.
    """
    path = ("sync", "toHost", "gatewayApi", "referenceGrants", "enabled")
    for tenant in world.tenants:
        found = look(tenant.value, *path)
        if is_known(found) and not has_hole(found) and found not in ("auto", "true", "false", True, False):
            message = f"syncing grants: unknown switch: `{found}`"
            yield Hit(at=tenant, path=path, message=message, fix="use auto, true or false")


@rule("gateway-kinds-as-custom-resources", Severity.WARNING)
def gateway_kinds_as_custom_resources(world: World) -> Iterator[Hit]:
    """Gateway API kinds are synced as custom resources.

    `sync.*.customResources` copies objects without translating their references to Services and Gateways (vCluster
    issue 3953). Since 0.35 there is a sync of its own for them.
    """
    for tenant in _shared(world):
        for side in ("toHost", "fromHost"):
            for name, entry in mapping(tenant.value, "sync", side, "customResources").items():
                if isinstance(name, str) and _GATEWAY_GROUP in name and is_on(entry, "enabled"):
                    path = ("sync", side, "customResources", name)
                    message = f"syncing custom resources: references in it are not translated: `{name}`"
                    yield Hit(
                        at=tenant,
                        path=path,
                        message=message,
                        fix="use `sync.toHost.gatewayApi` and `sync.fromHost.gateways`",
                    )


@rule("synced-backend-unsupported", Severity.ERROR)
def synced_backend_unsupported(world: World) -> Iterator[Hit]:
    """A route that is synced to the control plane cluster has a backend or kind that the sync does not know.

    The Gateway sync translates core Services as backends only; an InferencePool, and GRPCRoute, TCPRoute and UDPRoute
    altogether, stay behind. Serve those with a gateway inside the tenant cluster.
    """
    tenant = only_tenant(world)
    if tenant is None or not shares_nodes(tenant):
        return
    kinds = mapping(tenant.value, "sync", "toHost", "gatewayApi")
    if not (is_on(kinds, "enabled") or is_on(kinds, "httpRoutes", "enabled")) or world.has("GatewayClass"):
        return
    for route in world.of_kind("GRPCRoute", "TCPRoute", "UDPRoute"):
        if any(own in _parents(route) for _, _, own in _mappings(tenant)):
            message = f"routing by sync: the sync takes no {route.kind} to the imported Gateway"
            yield Hit(at=route, path=("kind",), message=message, fix="use a gateway of the tenant cluster's own")
    for route in world.of_kind("HTTPRoute"):
        for path, rules in items(route.value, "spec", "rules"):
            for at, backend in items(rules, "backendRefs"):
                if literal(backend, "kind") == "InferencePool":
                    message = "routing by sync: the sync knows Services only, found an InferencePool"
                    fix = "use a gateway of the tenant cluster's own, or a Service"
                    yield Hit(at=route, path=(*path, *at), message=message, fix=fix)


def _parents(route: Object) -> Mapping[str, FieldPath]:
    """The Gateways that a route names, as `namespace/name`, and where."""
    found = {}
    for path, parent in items(route.value, "spec", "parentRefs"):
        name, namespace = literal(parent, "name"), literal(parent, "namespace") or route.namespace
        if name and namespace and literal(parent, "kind") in (None, "Gateway"):
            found[f"{namespace}/{name}"] = path
    return found


@rule("route-names-gateway-outside", Severity.WARNING)
def route_names_gateway_outside(world: World) -> Iterator[Hit]:
    """A route in a tenant cluster names an imported Gateway as the control plane cluster knows it.

    Inside, the Gateway has the namespace and name on the right of `mappings.byName`; by the ones on the left it is
    not there, and the route stays without a parent. Said only of folders without objects of the Platform, whose routes
    may be those of the control plane cluster.
    """
    tenant = only_tenant(world)
    if tenant is None or not shares_nodes(tenant) or world.has("Gateway") or tenant.template is not None:
        return
    inside = {own for _, _, own in _mappings(tenant)}
    outside = {host: own for _, host, own in _mappings(tenant) if host not in inside and "*" not in host}
    for route in world.of_kind("HTTPRoute", "GRPCRoute", "TLSRoute"):
        for name, path in _parents(route).items():
            if name in outside:
                message = f"looking up Gateway: in the tenant cluster it has another name: `{name}`"
                yield Hit(at=route, path=path, message=message, fix=f"write `{outside[name]}`")


@rule("sync-both-ways", Severity.ERROR)
def sync_both_ways(world: World) -> Iterator[Hit]:
    """A kind is synced both to and from the control plane cluster.

    vCluster refuses storage classes, priority classes and a custom resource in both directions.
    """
    for tenant in _shared(world):
        for kind in ("storageClasses", "priorityClasses"):
            if is_on(tenant.value, "sync", "toHost", kind, "enabled") and is_on(
                tenant.value, "sync", "fromHost", kind, "enabled"
            ):
                message = f"syncing: both to and from the control plane cluster: `{kind}`"
                yield Hit(at=tenant, path=("sync", "toHost", kind), message=message, fix="keep one direction")
        inward = mapping(tenant.value, "sync", "fromHost", "customResources")
        for name, entry in mapping(tenant.value, "sync", "toHost", "customResources").items():
            if is_on(entry, "enabled") and is_on(inward, name, "enabled"):
                message = f"syncing: both to and from the control plane cluster: `{name}`"
                yield Hit(
                    at=tenant,
                    path=("sync", "toHost", "customResources", name),
                    message=message,
                    fix="keep one direction",
                )


@rule("scheduler-without-nodes", Severity.ERROR)
def scheduler_without_nodes(world: World) -> Iterator[Hit]:
    """The tenant cluster schedules by itself, but sees no nodes.

    Hybrid scheduling and the virtual scheduler need `sync.fromHost.nodes.enabled: true`; vCluster refuses to start
    without.
    """
    paths = (("sync", "toHost", "pods", "hybridScheduling"), ("controlPlane", "advanced", "virtualScheduler"))
    for tenant in _shared(world):
        nodes = look(tenant.value, "sync", "fromHost", "nodes", "enabled")
        for path in paths:
            if (
                shares_nodes(tenant)
                and is_on(tenant.value, *path, "enabled")
                and nodes is not True
                and not has_hole(nodes)
            ):
                message = f"scheduling in the tenant cluster: nodes are not synced, found: `{dotted(path)}`"
                yield Hit(at=tenant, path=path, message=message, fix="set `sync.fromHost.nodes.enabled: true`")


@rule("sync-patch-ambiguous", Severity.ERROR)
def sync_patch_ambiguous(world: World) -> Iterator[Hit]:
    """A patch of a synced kind says nothing or two things, or its path is patched twice.

    Each patch has one of expression (with reverseExpression), labels and reference, and each path one patch.
    """
    for tenant in _shared(world):
        for side in ("toHost", "fromHost"):
            for base, kind in _kinds(tenant, side):
                seen: set[str] = set()
                for path, patch in items(kind, "patches"):
                    entry = mapping(patch)
                    uses = int(bool(entry.get("expression") or entry.get("reverseExpression")))
                    uses += sum(is_known(entry.get(key)) for key in ("labels", "reference"))
                    target = literal(patch, "path") or ""
                    if uses != 1 or target in seen:
                        message = f"patching synced objects: a path takes one patch of one form: `{target}`"
                        yield Hit(
                            at=tenant,
                            path=(*base, *path),
                            message=message,
                            fix="give each path one patch, with one of expression, labels, reference",
                        )
                    seen.add(target)


def _kinds(tenant: TenantValues, side: str) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for key, kind in mapping(tenant.value, "sync", side).items():
        if key == "customResources":
            yield from ((("sync", side, key, name), mapping(entry)) for name, entry in mapping(kind).items())
        else:
            yield ("sync", side, key), mapping(kind)


@rule("policies-not-synced", Severity.ERROR)
def policies_not_synced(world: World) -> Iterator[Hit]:
    """A template puts network policies into a tenant cluster on shared nodes and does not sync them.

    Pods of such a tenant cluster run in the control plane cluster. A NetworkPolicy that stays in the tenant cluster
    binds nobody; `sync.toHost.networkPolicies` is off by default (vCluster issues 155 and 2452).
    """
    for tenant in _shared(world):
        synced = look(tenant.value, "sync", "toHost", "networkPolicies", "enabled")
        found = next((value for value in objects_of(world, tenant) if value.kind == "NetworkPolicy"), None)
        if found is not None and shares_nodes(tenant) and synced is not True and not has_hole(synced):
            message = f"enforcing network policies: they are not synced to where pods run: `{found.title}`"
            path = ("sync", "toHost", "networkPolicies") if synced is not None else ()
            yield Hit(at=tenant, path=path, message=message, fix="set `sync.toHost.networkPolicies.enabled: true`")


@rule("routes-not-synced", Severity.INFO)
def routes_not_synced(world: World) -> Iterator[Hit]:
    """A template puts routes into a tenant cluster on shared nodes and does not sync their kind.

    Ingresses and routes are not synced by default. Unless a controller runs inside of the tenant cluster, nobody
    serves them.
    """
    switches = {
        "Ingress": (("ingresses", "enabled"),),
        "HTTPRoute": (("gatewayApi", "enabled"), ("gatewayApi", "httpRoutes", "enabled")),
    }
    for tenant in _shared(world):
        for value in objects_of(world, tenant) if shares_nodes(tenant) else ():
            paths = switches.get(value.kind, ())
            if paths and not any(is_on(tenant.value, "sync", "toHost", *path) for path in paths):
                message = f"serving routes: the kind is not synced: `{value.title}`"
                fix = f"set `{dotted(('sync', 'toHost', *paths[-1]))}: true`"
                yield Hit(at=value, message=message, fix=fix)
