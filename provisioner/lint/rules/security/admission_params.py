"""Parameters of admission policies: of which kind they are, and what expressions read of them.

Source: Kubernetes documentation, "Validating Admission Policy", Parameter resources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity, nearest_name
from provisioner.lint.rule import Hit, rule
from provisioner.lint.schemas import builtin_kinds
from provisioner.lint.values import has_hole, items, literal, look, mapping
from provisioner.lint.world import Object, World

_POLICY, _BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_KIND = ("spec", "paramKind")
_READ = re.compile(r"(?<![\w.])params\.data(?:\.(\w+)|\[['\"]([\w.-]+)['\"]\])")
_GUARDS = ("has(params", "in params.data", "params.data.?", "params.?", "params.data[?")
"""How an expression provides for an entry that may be absent."""


@rule("admission-params-kind-unknown", Severity.ERROR)
def admission_params_kind_unknown(world: World) -> Iterator[Hit]:
    """A policy takes its parameters from a kind that an API group of Kubernetes itself does not have.

    The policy is accepted, and every request that it matches is answered with `failed to find resource`.
    """
    served = builtin_kinds(world.kubernetes)
    for found in world.of_kind(_POLICY):
        version, kind = literal(found.value, *_KIND, "apiVersion"), literal(found.value, *_KIND, "kind")
        if not version or not kind:
            continue
        group, _, short = version.rpartition("/")
        names = [name for (one, other, name) in served if (one, other) == (group, short)]
        if names and kind not in names:
            near = nearest_name(kind, names)
            message = f"passing parameters: {version} has no kind `{kind}`"
            fix = f"did you mean {near}?" if near else "name one that is there"
            yield Hit(at=found, path=(*_KIND, "kind"), message=message, fix=fix)


@rule("admission-params-lack-key", Severity.ERROR)
def admission_params_lack_key(world: World) -> Iterator[Hit]:
    """An expression reads an entry of its parameters that the ConfigMap of a binding does not have.

    The expression fails with `no such key`, and with failurePolicy Fail every request is refused.
    """
    for binding in world.of_kind(_BINDING):
        policy = world.find(_POLICY, literal(binding.value, "spec", "policyName") or "")
        reference = mapping(binding.value, "spec", "paramRef")
        name, space = literal(reference, "name"), literal(reference, "namespace")
        is_map = policy is not None and literal(policy.value, *_KIND, "kind") == "ConfigMap"
        given = world.find("ConfigMap", name, namespace=space) if name and is_map else None
        keys = sorted(map(str, mapping(given.value, "data"))) if given else []
        for key in _read(policy) if policy is not None and keys else ():
            if key not in keys:
                near = nearest_name(key, keys)
                message = f"passing parameters: {given.title if given else ''} has no entry that is read: `{key}`"
                fix = f"did you mean {near}?" if near else "add the entry"
                yield Hit(at=binding, path=("spec", "paramRef", "name"), message=message, fix=fix)


def _read(policy: Object) -> Iterator[str]:
    """The entries that the expressions of a policy need."""
    found: dict[str, None] = {}
    for field in ("validations", "matchConditions", "variables"):
        for _, item in items(policy.value, "spec", field):
            written = look(item, "expression")
            if isinstance(written, str) and not has_hole(written) and not any(one in written for one in _GUARDS):
                found |= dict.fromkeys(plain or quoted for plain, quoted in _READ.findall(written))
    yield from found


@rule("admission-params-without-kind", Severity.ERROR)
def admission_params_without_kind(world: World) -> Iterator[Hit]:
    """The expressions of a policy read parameters, and the policy takes none.

    Without `paramKind` there is no `params`: the API server refuses the policy, `undeclared reference to 'params'`. A
    binding's `paramRef` alone changes nothing.
    """
    for policy in world.of_kind(_POLICY):
        for field in ("validations", "matchConditions", "variables") if not mapping(policy.value, *_KIND) else ():
            for path, item in items(policy.value, "spec", field):
                written = look(item, "expression")
                if isinstance(written, str) and re.search(r"(?<![\w.])params\.", written):
                    message = f"passing parameters: the policy has no paramKind: `{policy.name}`"
                    yield Hit(at=policy, path=(*path, "expression"), message=message, fix="add spec.paramKind")
