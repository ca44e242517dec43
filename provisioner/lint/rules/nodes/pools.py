"""Node pools of tenant clusters: their form, and whether any node type can ever be a node of theirs.

The rules about form are vCluster's own validation (`validatePrivateNodesMode`, `validateRequirements`), which the
schema does not know; they show only as a control plane that crashes. The joins follow how the Platform picks node
types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.joins.pools import NODE_TYPE, OPERATORS, Pool, offers_of, pools, term_values
from provisioner.lint.joins.schedule import is_cron, is_duration, seconds
from provisioner.lint.joins.tenant import brings_nodes, only_tenant
from provisioner.lint.rule import Hit, Located, rule
from provisioner.lint.values import Hole, has_hole, is_known, items, literal, look, mapping, whole
from provisioner.lint.world import TenantValues, World


def _every_pool(world: World) -> Iterator[Pool]:
    return (pool for tenant in world.tenants for pool in pools(tenant))


def _selectors(tenant: TenantValues) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    for pool in pools(tenant):
        yield from pool.selector
    for path, term in items(tenant.value, "controlPlane", "standalone", "autoNodes", "nodeTypeSelector"):
        if isinstance(term, Mapping):
            yield path, term


@rule("pool-provider-unclear", Severity.ERROR)
def pool_provider_unclear(world: World) -> Iterator[Hit]:
    """An entry of `autoNodes` names no provider, or one that another entry has.

    Each entry has a provider of its own and holds all pools of it; a second entry for the same provider is refused
    with `node pool provider … is already used`.
    """
    for tenant in world.tenants:
        seen: set[str] = set()
        for path, entry in items(tenant.value, "privateNodes", "autoNodes"):
            provider = look(entry, "provider")
            if not provider:
                message = "adding nodes: an entry of `autoNodes` has no provider"
                yield Hit(at=tenant, path=path, message=message, fix="set `provider` to a NodeProvider's name")
            elif isinstance(provider, str):
                if provider in seen:
                    message = f"adding nodes: two entries of `autoNodes` have the provider: `{provider}`"
                    fix = "put all pools of a provider into one entry"
                    yield Hit(at=tenant, path=(*path, "provider"), message=message, fix=fix)
                seen.add(provider)


@rule("pool-name-unclear", Severity.ERROR)
def pool_name_unclear(world: World) -> Iterator[Hit]:
    """A node pool has no name, or one that another pool has.

    Names are unique over all providers and over static and dynamic pools, since each becomes a NodePool in the tenant
    cluster: `node pool name … is already used`.
    """
    for tenant in world.tenants:
        seen: set[str] = set()
        for pool in pools(tenant):
            name = look(pool.value, "name")
            if not name:
                message = "adding nodes: a pool has no name"
                yield Hit(at=tenant, path=pool.path, message=message, fix="set `name`")
            elif isinstance(name, str):
                if name in seen:
                    message = f"adding nodes: two pools have the name: `{name}`"
                    fix = "give each pool a name of its own, also across providers"
                    yield Hit(at=tenant, path=(*pool.path, "name"), message=message, fix=fix)
                seen.add(name)


@rule("pool-quantity-invalid", Severity.ERROR)
def pool_quantity_invalid(world: World) -> Iterator[Hit]:
    """A static pool has no quantity or a negative one, or a dynamic pool has one.

    `quantity` is required in static pools and unknown in dynamic ones, whose bounds are `limits`.
    """
    for pool in _every_pool(world):
        quantity = look(pool.value, "quantity")
        path = (*pool.path, "quantity")
        if pool.is_static and quantity is None:
            message = f"sizing pool: a static pool wants a quantity: `{pool.shown}`"
            yield Hit(at=pool.tenant, path=path, message=message, fix="set `quantity` to the number of nodes")
        elif pool.is_static and pool.quantity is not None and pool.quantity < 0:
            message = f"sizing pool: negative quantity of `{pool.shown}`: {pool.quantity}"
            yield Hit(at=pool.tenant, path=path, message=message, fix="set 0 or more")
        elif not pool.is_static and quantity is not None:
            message = f"sizing pool: a dynamic pool has no quantity: `{pool.shown}`"
            yield Hit(at=pool.tenant, path=path, message=message, fix='use `limits: {nodes: "…"}`, or make it static')


@rule("node-selector-operator", Severity.ERROR)
def node_selector_operator(world: World) -> Iterator[Hit]:
    """A node type selector has no property, or an operator that vCluster refuses.

    Operators are In (the default), NotIn, Exists, DoesNotExist, Gt and Lt. The `NotExists` of the vendor's
    documentation passes the schema and is refused by the validation: `invalid operator …`.
    """
    for tenant in world.tenants:
        for path, term in _selectors(tenant):
            operator = look(term, "operator")
            if not look(term, "property"):
                message = "selecting node types: a term has no property"
                yield Hit(at=tenant, path=path, message=message, fix="set `property`")
            if is_known(operator) and not has_hole(operator) and operator not in OPERATORS:
                near = "DoesNotExist" if operator == "NotExists" else nearest_name(str(operator), OPERATORS[1:])
                message = f"selecting node types: unknown operator: `{operator}`"
                fix = f"use {near or 'In, NotIn, Exists, DoesNotExist, Gt or Lt'}"
                yield Hit(at=tenant, path=(*path, "operator"), message=message, fix=fix)


def _given(term: Any) -> list[Any]:
    several = look(term, "values")
    return several if isinstance(several, list) else [look(term, "value")] if look(term, "value") is not None else []


def _is_number(value: Any) -> bool:
    return isinstance(value, Hole) or re.fullmatch(r"-?\d+", str(value)) is not None


@rule("pool-taint-refused", Severity.ERROR)
def pool_taint_refused(world: World) -> Iterator[Hit]:
    """A taint of a pool or of a node profile has no key or an effect that there is not.

    Effects are NoSchedule, PreferNoSchedule and NoExecute, letter by letter; nodes with another one are refused.
    """
    places: list[tuple[Located, FieldPath, Any]] = []
    for pool in _every_pool(world):
        places += [(pool.tenant, (*pool.path, *path), item) for path, item in items(pool.value, "taints")]
    for profile in world.of_kind("NodeProfile"):
        places += [(profile, path, item) for path, item in items(profile.value, "spec", "taints")]
    for at, path, taint in places:
        effect = look(taint, "effect")
        if isinstance(effect, str) and not has_hole(effect) and effect not in _EFFECTS:
            near = nearest_name(effect, _EFFECTS)
            message = f"tainting nodes: there is no such effect: `{effect}`"
            yield Hit(at=at, path=(*path, "effect"), message=message, fix=f"write {near or ', '.join(_EFFECTS)}")


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@rule("node-selector-values", Severity.ERROR)
def node_selector_values(world: World) -> Iterator[Hit]:
    """A node type selector has values where its operator takes none, none where it needs some, or both forms at once.

    `value` and `values` exclude each other; Exists and DoesNotExist take neither, all others want one.
    """
    for tenant in world.tenants:
        for path, term in _selectors(tenant):
            single, several = bool(look(term, "value")), bool(look(term, "values"))
            is_bare = look(term, "operator") in ("Exists", "DoesNotExist")
            problem = (
                "`value` and `values` exclude each other"
                if single and several
                else "Exists and DoesNotExist take no value"
                if is_bare and (single or several)
                else "Gt and Lt compare whole numbers"
                if look(term, "operator") in ("Gt", "Lt") and not all(_is_number(one) for one in _given(term))
                else "`value` or `values` is missing"
                if not is_bare and not single and not several and look(term, "operator") in (None, *OPERATORS)
                else ""
            )
            if problem:
                yield Hit(
                    at=tenant, path=path, message=f"selecting node types: {problem}", fix="give it `values: […]` only"
                )


@rule("node-type-without-provider", Severity.ERROR)
def node_type_without_provider(world: World) -> Iterator[Hit]:
    """A pool selects a node type by a name without its provider, or by another provider's.

    Node types are global and named `<provider>.<type>`; `vcluster.com/node-type` holds that whole name. Older examples
    leave the provider out; such a selector matches nothing, and the node claims stay pending.
    """
    for pool in _every_pool(world):
        for path, term in pool.selector:
            if literal(term, "property") != NODE_TYPE or look(term, "operator") not in (None, "", "In"):
                continue
            for value in term_values(term) or ():
                if pool.provider and not value.startswith(f"{pool.provider}."):
                    message = f"selecting node types: not a type of provider {pool.provider}: `{value}`"
                    fix = f"write the whole name, such as `{pool.provider}.{value.rpartition('.')[2]}`"
                    yield Hit(at=pool.tenant, path=path, message=message, fix=fix)
                elif pool.provider is None and "." not in value:
                    message = f"selecting node types: the provider's name is missing: `{value}`"
                    yield Hit(at=pool.tenant, path=path, message=message, fix="write `<provider>.<type>`")


@rule("pool-selects-nothing", Severity.ERROR)
def pool_selects_nothing(world: World) -> Iterator[Hit]:
    """No node type of its provider fits a pool's selector.

    All terms must hold for one type. Its node claims then stay pending with Scheduled=False, and pods with them.
    """
    offers = offers_of(world)
    for pool in _every_pool(world):
        if pool.selector and offers.matching(pool) == [] and not _is_told_elsewhere(pool):
            offered = offers.of(pool.provider, to=pool.tenant.file)
            known = ", ".join(sorted(offer.short_name for offer in offered))
            message = f"selecting node types: pool `{pool.shown}` matches no type of provider: `{pool.provider}`"
            path = pool.selector[0][0]
            yield Hit(at=pool.tenant, path=path, message=message, fix=f"select one of its types: {known}")


def _is_told_elsewhere(pool: Pool) -> bool:
    """Whether another rule says already why nothing matches."""
    names = [
        value
        for _, term in pool.selector
        if literal(term, "property") == NODE_TYPE and look(term, "operator") in (None, "", "In")
        for value in term_values(term) or ()
    ]
    return any(not value.startswith(f"{pool.provider}.") for value in names)


@rule("pool-beyond-capacity", Severity.ERROR)
def pool_beyond_capacity(world: World) -> Iterator[Hit]:
    """A static pool keeps more nodes than its provider can make.

    `maxCapacity` bounds the nodes of a type over all tenants. When a pool's quantity exceeds the sum over all types
    that its selector takes, some of its nodes never come.
    """
    offers = offers_of(world)
    for pool in _every_pool(world):
        matching = offers.matching(pool)
        limits = [offer.max_capacity for offer in matching or ()]
        known = [limit for limit in limits if limit is not None]
        if pool.quantity and limits and len(known) == len(limits) and pool.quantity > sum(known):
            message = f"sizing pool: `{pool.shown}` wants {pool.quantity} nodes, its types have at most {sum(known)}"
            fix = "lower `quantity`, raise `maxCapacity`, or select more types"
            yield Hit(at=pool.tenant, path=(*pool.path, "quantity"), message=message, fix=fix)


@rule("pool-limits-below-one-node", Severity.ERROR)
def pool_limits_below_one_node(world: World) -> Iterator[Hit]:
    """The limits of a dynamic pool are smaller than any node it could have.

    Karpenter adds no node that would exceed `limits`. With a GPU limit below the GPUs of the smallest matching
    type, or `nodes: "0"`, the pool stays empty.
    """
    offers = offers_of(world)
    for pool in _every_pool(world):
        for key, limit in mapping(pool.value, "limits").items():
            wanted = _number(limit)
            if pool.is_static or wanted is None:
                continue
            sizes = [_number(offer.resources.get(key)) for offer in offers.matching(pool) or ()]
            smallest = 1 if key == "nodes" else min((size for size in sizes if size), default=0)
            if wanted < smallest and (key == "nodes" or (sizes and None not in sizes)):
                message = f"limiting pool: `{pool.shown}` may have {wanted} of {key}, one node has {smallest}"
                path = (*pool.path, "limits", key)
                yield Hit(at=pool.tenant, path=path, message=message, fix="raise the limit to a multiple of one node's")


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@rule("pool-duration-malformed", Severity.ERROR)
def pool_duration_malformed(world: World) -> Iterator[Hit]:
    """A duration or schedule of a node pool cannot be read.

    `consolidateAfter`, `expireAfter` and `terminationGracePeriod` are Go durations such as 10m or 168h (no days),
    the first two also Never; a budget's schedule is a cron expression and comes with a duration.
    """
    places = (
        (("disruption", "consolidateAfter"), True),
        (("expireAfter",), True),
        (("terminationGracePeriod",), False),
    )
    for pool in _every_pool(world):
        for place, may_be_never in places:
            found = literal(pool.value, *place)
            if found and not is_duration(found) and not (may_be_never and found == "Never"):
                message = f"reading pool `{pool.shown}`: not a duration: `{found}`"
                yield Hit(
                    at=pool.tenant,
                    path=(*pool.path, *place),
                    message=message,
                    fix="write hours, minutes, seconds: `168h`",
                )
        for path, budget in items(pool.value, "disruption", "budgets"):
            schedule = literal(budget, "schedule")
            if schedule and not (is_cron(schedule) and look(budget, "duration")):
                message = f"reading pool `{pool.shown}`: a budget wants a cron schedule and a duration: `{schedule}`"
                fix = "write five cron fields and `duration`"
                yield Hit(at=pool.tenant, path=(*pool.path, *path), message=message, fix=fix)


@rule("pool-consolidation-unknown", Severity.ERROR)
def pool_consolidation_unknown(world: World) -> Iterator[Hit]:
    """A dynamic pool consolidates by a policy that does not exist.

    It is WhenEmpty or WhenEmptyOrUnderutilized (the default, which also moves pods that run).
    """
    for pool in _every_pool(world):
        path = ("disruption", "consolidationPolicy")
        found = literal(pool.value, *path)
        if found and found not in ("WhenEmpty", "WhenEmptyOrUnderutilized"):
            message = f"consolidating pool: unknown policy: `{found}`"
            yield Hit(
                at=pool.tenant,
                path=(*pool.path, *path),
                message=message,
                fix="use WhenEmpty or WhenEmptyOrUnderutilized",
            )


@rule("pool-cuts-drain", Severity.WARNING)
def pool_cuts_drain(world: World) -> Iterator[Hit]:
    """Nodes of a pool are taken away before its pods have had their time to end.

    `terminationGracePeriod` bounds the whole drain of a node: pods whose own grace period is longer are killed in the
    middle of their answers.
    """
    tenant = only_tenant(world)
    if tenant is None or not brings_nodes(tenant):
        return
    longest = max((whole(pod.spec, "terminationGracePeriodSeconds") or 0 for pod in world.pods), default=0)
    for pool in pools(tenant):
        found = literal(pool.value, "terminationGracePeriod")
        bound = seconds(found) if found else None
        if bound is not None and bound < longest:
            message = f"draining nodes: pods may take {longest} s, the pool takes its nodes after: `{found}`"
            fix = "set `terminationGracePeriod` above the longest terminationGracePeriodSeconds"
            yield Hit(at=pool.tenant, path=(*pool.path, "terminationGracePeriod"), message=message, fix=fix)


@rule("claims-on-dynamic-pools", Severity.WARNING)
def claims_on_dynamic_pools(world: World) -> Iterator[Hit]:
    """Pods claim devices by DRA while the tenant cluster has dynamic pools only.

    Karpenter ignores pods that ask for devices by resource claims alone (its default `ignore-dra-requests=true`),
    so they wait for a node that nobody adds. Use static pools for DRA.
    """
    tenant = only_tenant(world)
    found = list(pools(tenant)) if tenant is not None else []
    if not found or any(pool.is_static and pool.quantity != 0 for pool in found):
        return
    pod = next((pod for pod in world.pods if look(pod.spec, "resourceClaims")), None)
    if pod is not None:
        message = f"adding nodes: resource claims of `{pod.owner.title}` do not grow a dynamic pool"
        yield Hit(at=found[0].tenant, path=found[0].path, message=message, fix="make the pool static, with a quantity")


@rule("gpu-pool-without-gpus", Severity.WARNING)
def gpu_pool_without_gpus(world: World) -> Iterator[Hit]:
    """A pool that is called after GPUs takes node types that have none.

    The Platform takes the cheapest type that fits. When some matching types have GPUs and a cheaper one has none, a
    static pool gets that one; when none has any, no GPU pod ever fits.
    """
    offers = offers_of(world)
    for pool in _every_pool(world):
        matching = offers.matching(pool)
        if "gpu" in pool.name.lower() and matching and not any(offer.has_accelerators for offer in matching):
            message = f"selecting node types: none that pool `{pool.shown}` takes has GPUs: `{matching[0].name}`"
            path = pool.selector[0][0] if pool.selector else pool.path
            yield Hit(
                at=pool.tenant,
                path=path,
                message=message,
                fix="select a type with GPUs, or declare them in its `resources`",
            )
