"""Node pools of tenant clusters and the node types that providers offer, and which of them a selector takes.

The Platform names a type `<provider>.<type>`, filters types by selector and takes the cheapest. No rules stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.lint.joins.nearest import choose
from provisioner.lint.joins.quantities import is_accelerator
from provisioner.lint.values import has_hole, items, literal, look, mapping, texts, whole
from provisioner.lint.world import Object, TenantValues, World

PROVIDER_KINDS = ("bcm", "kubeVirt", "terraform", "clusterAPI", "metal3")
NODE_TYPE = "vcluster.com/node-type"
OPERATORS = ("", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_PLATFORM_GROUPS = ("kubernetes.io", "karpenter.sh", "vcluster.com")


@dataclass(frozen=True, eq=False)
class Pool:
    """A static or dynamic pool of one provider."""

    tenant: TenantValues
    path: FieldPath
    value: Mapping[str, Any]
    provider: str | None
    """None where it is not known yet."""
    is_static: bool

    @property
    def name(self) -> str:
        """Its name, empty where there is none or it is not known."""
        return literal(self.value, "name") or ""

    @property
    def quantity(self) -> int | None:
        """How many nodes a static pool keeps."""
        return whole(self.value, "quantity") if self.is_static else None

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return self.name or "without a name"

    @cached_property
    def selector(self) -> tuple[tuple[FieldPath, Mapping[str, Any]], ...]:
        """The terms of its selector, each with its path in the values."""
        terms = items(self.value, "nodeTypeSelector")
        return tuple(((*self.path, *path), term) for path, term in terms if isinstance(term, Mapping))


@dataclass(frozen=True, eq=False)
class NodeOffer:
    """One node type of a provider."""

    owner: Object
    path: FieldPath
    provider: str
    short_name: str
    value: Mapping[str, Any]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that selectors and Projects use."""
        return f"{self.provider}.{self.short_name}"

    @property
    def resources(self) -> Mapping[str, Any]:
        """What a node of the type has."""
        return mapping(self.value, "resources")

    @property
    def has_accelerators(self) -> bool:
        """Whether a node of the type has GPUs or chips like them."""
        return any(is_accelerator(str(name)) for name in self.resources)

    @property
    def max_capacity(self) -> int | None:
        """How many nodes the provider makes at most."""
        return whole(self.value, "maxCapacity")


@dataclass(frozen=True, eq=False)
class Offers:
    """All node types of a world, by provider; a provider may stand in the folders of several environments."""

    known: Mapping[str, Sequence[Sequence[NodeOffer]]]

    def of(self, provider: str | None, *, to: str) -> Sequence[NodeOffer]:
        """The types of the provider that a file means; none where it is not known, or has none."""
        return _of(self, provider or "", to.rpartition("/")[0])

    def all(self) -> Iterator[NodeOffer]:
        """Every type of every provider."""
        return (offer for several in self.known.values() for offered in several for offer in offered)

    def matching(self, pool: Pool) -> Sequence[NodeOffer] | None:
        """The types that a pool takes, None where that cannot be told."""
        answers = self._answers(pool)
        if not answers or any(answer is None for _, answer in answers):
            return None
        return [offer for offer, answer in answers if answer]

    def possible(self, pool: Pool) -> Sequence[NodeOffer]:
        """The types that a pool may take, those of which that cannot be told included."""
        return [offer for offer, answer in self._answers(pool) if answer is not False]

    def _answers(self, pool: Pool) -> Sequence[tuple[NodeOffer, bool | None]]:
        offered = self.of(pool.provider, to=pool.tenant.file)
        return [(offer, _matches(pool, offer, offered)) for offer in offered]


@lru_cache(maxsize=4096)
def _of(offers: Offers, provider: str, folder: str) -> Sequence[NodeOffer]:
    found = [offered for offered in offers.known.get(provider, ()) if offered]
    return choose(found, file_of=lambda offered: offered[0].owner.file, to=f"{folder}/") or ()


def pools(tenant: TenantValues) -> Iterator[Pool]:
    """All pools of a tenant cluster."""
    for top, entry in items(tenant.value, "privateNodes", "autoNodes"):
        for kind in ("static", "dynamic"):
            for path, pool in items(entry, kind):
                if isinstance(pool, Mapping):
                    yield Pool(tenant, (*top, *path), pool, literal(entry, "provider"), kind == "static")


def provider_blocks(provider: Object) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The blocks of a NodeProvider's kinds; a sound one has exactly one."""
    for kind in PROVIDER_KINDS:
        if kind in mapping(provider.value, "spec"):
            yield ("spec", kind), mapping(provider.value, "spec", kind)


def provider_types(provider: Object) -> Iterator[NodeOffer]:
    """The node types that a NodeProvider offers."""
    common = texts(provider.value, "spec", "properties")
    for path, block in provider_blocks(provider):
        for at, value in items(block, "nodeTypes"):
            name = literal(value, "name")
            if name:
                own = {**common, **texts(value, "properties")}
                yield NodeOffer(provider, (*path, *at), provider.name, name, value, own)


@lru_cache(maxsize=1)
def offers_of(world: World) -> Offers:
    """What the NodeProviders of a world offer, with the NodeType objects of providers that are not in it."""
    known: dict[str, list[list[NodeOffer]]] = {}
    for provider in world.of_kind("NodeProvider"):
        if provider.name and not has_hole(provider.name) and mapping(provider.value, "spec"):
            known.setdefault(provider.name, []).append(list(provider_types(provider)))
    loose: dict[tuple[str, str], list[NodeOffer]] = {}
    for value in world.of_kind("NodeType"):
        reference = literal(value.value, "spec", "providerRef")
        if reference and reference not in known and value.name.startswith(f"{reference}."):
            short = value.name[len(reference) + 1 :]
            properties = texts(value.value, "spec", "properties")
            offer = NodeOffer(value, (), reference, short, mapping(value.value, "spec"), properties)
            loose.setdefault((reference, value.folder), []).append(offer)
    for (reference, _), offered in loose.items():
        known.setdefault(reference, []).append(offered)
    return Offers(known)


def term_values(term: Mapping[str, Any]) -> list[str] | None:
    """The values of a selector's term as texts, None where one is not known yet."""
    single, several = look(term, "value"), look(term, "values")
    found = [single] if single not in (None, "") else list(several) if isinstance(several, list) else []
    if any(has_hole(value) or not isinstance(value, str | int | float) for value in found) or has_hole(several):
        return None
    return [str(value) for value in found]


def _matches(pool: Pool, offer: NodeOffer, offered: Sequence[NodeOffer]) -> bool | None:
    is_unknown = False
    for _, term in pool.selector:
        answer = _takes(term, offer, offered)
        if answer is False:
            return False
        is_unknown = is_unknown or answer is None
    return None if is_unknown else True


def _takes(term: Mapping[str, Any], offer: NodeOffer, offered: Sequence[NodeOffer]) -> bool | None:
    name, operator, values = literal(term, "property"), look(term, "operator") or "", term_values(term)
    if not name or operator not in OPERATORS or values is None:
        return None
    found = offer.name if name == NODE_TYPE else offer.properties.get(name)
    if found is None and (_is_told_by_platform(name) and not any(name in other.properties for other in offered)):
        return None
    if found is not None and has_hole(found):
        return None
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    if operator == "NotIn":
        return found not in values
    if operator in ("Gt", "Lt"):
        return _compares(found, values, operator)
    return found in values


def _is_told_by_platform(name: str) -> bool:
    """Whether the Platform or the provider may set the property by itself."""
    domain = name.partition("/")[0]
    return "/" in name and domain.endswith(_PLATFORM_GROUPS)


def _compares(found: str | None, values: Sequence[str], operator: str) -> bool | None:
    try:
        one, other = int(found or ""), int(values[0])
    except (ValueError, IndexError):
        return False if found is None else None
    return one > other if operator == "Gt" else one < other
