"""Expressions of admission policies that read fields which the objects they are about do not have.

Source: Kubernetes documentation, "Validating Admission Policy": a failed expression counts as `failurePolicy` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from provisioner.domain.finding import Severity
from provisioner.lint.rule import Hit, rule
from provisioner.lint.values import items, literal, mapping, text
from provisioner.lint.world import Object, World

_TEMPLATED = frozenset(["deployments", "statefulsets", "daemonsets", "replicasets", "jobs", "replicationcontrollers"])
_KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_OF_POD = "containers|initContainers|volumes|hostNetwork|hostPID|serviceAccountName|runtimeClassName|securityContext"
_PLACES = {
    "pods": re.compile(rf"object\.spec\.(?:{_OF_POD}|nodeSelector|tolerations)\b"),
    "templates": re.compile(r"object\.spec\.template\.spec\b"),
    "cronjobs": re.compile(r"object\.spec\.jobTemplate\b"),
}
_GUARD = re.compile(
    r"has\(object\.(?:kind|spec\.(?:template|jobTemplate|containers)\b)|\.\?|object\.kind|\bin object\.spec\b"
)
"""An expression that asks first what it has before it."""
_WORDS = {
    "pods": "object.spec",
    "templates": "object.spec.template.spec",
    "cronjobs": "object.spec.jobTemplate.spec.template.spec",
}


@rule("admission-policy-reads-other-kind", Severity.ERROR)
def admission_policy_reads_other_kind(world: World) -> Iterator[Hit]:
    """An admission policy reads where a pod stands in objects of another kind than those it is about.

    A pod's containers are `object.spec.containers`, a Deployment's `object.spec.template.spec.containers`, a CronJob's
    one level deeper. The expression fails with `no such key`: with failurePolicy Fail every object is refused, with
    Ignore none is.
    """
    for policy in world.of_kind(*_KINDS):
        kinds = _about(policy)
        for path, item in items(policy.value, "spec", "validations") if len(kinds) == 1 else ():
            written = literal(item, "expression") or ""
            read = {name for name, pattern in _PLACES.items() if pattern.search(written)}
            if read and not read & kinds and not _GUARD.search(written):
                kind = next(iter(kinds))
                message = f"checking objects: the expression reads `{_WORDS[sorted(read)[0]]}`, which they do not have"
                fix = f"read `{_WORDS[kind]}`, or match the resources that have it"
                yield Hit(at=policy, path=(*path, "expression"), message=message, fix=fix)


def _about(policy: Object) -> set[str]:
    """Which of the three places the objects of a policy have; empty where nobody knows."""
    found: set[str] = set()
    for _, entry in items(mapping(policy.value, "spec"), "matchConstraints", "resourceRules"):
        for _, name in items(entry, "resources"):
            resource = str(name).partition("/")[0]
            if resource in _TEMPLATED:
                found.add("templates")
            elif resource in ("pods", "cronjobs"):
                found.add(resource)
            else:
                return set()
    return set() if text(policy.value, "spec", "paramKind", "kind") == "Pod" else found
