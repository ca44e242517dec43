"""Volume claims against quotas and limits of their namespace.

Source: Kubernetes documentation, "Resource Quotas" (storage) and "Limit Ranges" (storage).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from provisioner.catalog.fields import FieldPath
from provisioner.domain.finding import Severity
from provisioner.lint.joins.quantities import amount, plain
from provisioner.lint.joins.scaling import replicas
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, look, mapping, text
from provisioner.lint.world import Object, World

_PER_CLASS = ".storageclass.storage.k8s.io/requests.storage"


_Claim = tuple[Object, FieldPath, Any, int]
"""Who makes a claim, where it stands, the claim, and how many of it there are at most."""


def _claims(world: World, namespace: str) -> Sequence[_Claim]:
    """The claims of a namespace, those of StatefulSets too."""
    return _claims_by_namespace(world).get(namespace, ())


@lru_cache(maxsize=2)
def _claims_by_namespace(world: World) -> Mapping[str | None, Sequence[_Claim]]:
    made: dict[str | None, list[_Claim]] = {}
    for found in world.of_kind("PersistentVolumeClaim"):
        made.setdefault(found.namespace, []).append((found, (), found.value, 1))
    for found in world.of_kind("StatefulSet"):
        count = replicas(world, found)
        for path, item in items(found.value, "spec", "volumeClaimTemplates") if count else ():
            made.setdefault(found.namespace, []).append((found, path, item, count.most if count else 0))
    return made


@rule("limit-range-refuses-claim", Severity.ERROR)
def limit_range_refuses_claim(world: World) -> Iterator[Hit]:
    """A volume claim asks for more than a LimitRange of its namespace allows, or for less.

    The API server refuses it: `maximum storage usage per PersistentVolumeClaim is …`.
    """
    for found in world.of_kind("LimitRange"):
        for _, item in items(found.value, "spec", "limits"):
            if text(item, "type") != "PersistentVolumeClaim" or found.namespace is None:
                continue
            most, least = amount(look(item, "max", "storage")), amount(look(item, "min", "storage"))
            for at, path, claim, _ in _claims(world, found.namespace):
                where = ("spec", "resources", "requests", "storage")
                asked = amount(look(claim, *where))
                bound = most if asked is not None and most is not None and asked > most else None
                bound = least if asked is not None and least is not None and asked < least else bound
                if asked is not None and bound is not None:
                    message = f"claiming volume: {plain(asked)} is beyond what {found.title} allows: `{plain(bound)}`"
                    fix = f"ask for {plain(bound)}, or change the LimitRange"
                    yield Hit(at=at, path=(*path, *where), message=message, fix=fix)


@rule("quota-below-claims", Severity.ERROR)
def quota_below_claims(world: World) -> Iterator[Hit]:
    """The volume claims of a namespace are more, or together larger, than its ResourceQuota allows.

    The last of them is refused: `exceeded quota: …, requested: requests.storage=…`, and its pods wait for ever. Claims
    of StatefulSets count once for each replica.
    """
    for quota in world.of_kind("ResourceQuota"):
        hard = mapping(quota.value, "spec", "hard")
        claims = _claims(world, quota.namespace) if quota.namespace and not quota.group else ()
        for key, value in hard.items() if claims else ():
            most, taken = amount(value), _taken(claims, str(key))
            if most is not None and taken is not None and taken > most:
                message = f"counting claims: those of {quota.namespace} take {plain(taken)} of {key}: `{plain(most)}`"
                fix = f"raise {key}, or claim less"
                yield Hit(at=quota, path=("spec", "hard", key), message=message, fix=fix)


def _taken(claims: Sequence[_Claim], key: str) -> Decimal | None:
    """How much the claims take of what a quota counts; None for anything else."""
    if key in ("persistentvolumeclaims", "count/persistentvolumeclaims"):
        return Decimal(sum(count for *_, count in claims))
    wanted = key.removesuffix(_PER_CLASS) if key.endswith(_PER_CLASS) else None
    if key != "requests.storage" and wanted is None:
        return None
    total = Decimal(0)
    for _, _, claim, count in claims:
        asked = amount(look(claim, "spec", "resources", "requests", "storage"))
        if wanted is None or literal(claim, "spec", "storageClassName") == wanted:
            total += (asked or Decimal(0)) * count
    return total
