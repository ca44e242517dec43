"""What a tier's admission policies would refuse of the manifests that a plan is rendered to, before anything is made.

`tenantry plan`, previews and the API ask the same judge; the tenant cluster asks the same policies later. Reads the
policies of the tiers that are asked about, each once; never binds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from provisioner.admission.policy import PARAMETERS, Policy, Question, load_policy
from provisioner.catalog.tier import Isolation
from provisioner.domain.errors import RejectedError
from provisioner.domain.finding import Finding, unknown_name_hint
from provisioner.domain.plan import EndpointPlan
from provisioner.rendering.pack import Pack

Object = Mapping[str, Any]

_FOLDER = "policies/admission"
SETTINGS = "tenantry-policy"
"""Name and namespace of the ConfigMap that policies read."""

_TEMPLATES: Mapping[str, Sequence[tuple[str, ...]]] = {
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        (("spec", "template"),),
    ),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Where the pods of a kind are described."""


_TOLD_BEFORE = {"ImageNotPinned": "PolicyImageDigest", "RegistryNotAllowed": "PolicyImageRegistry"}
"""What a finding about a request says, and what a policy would say again about the manifests made of it."""


def untold(refusals: Iterable[Finding], before: Iterable[Finding]) -> tuple[Finding, ...]:
    """The refusals of policies without those whose cause the findings about the request name already."""
    told = {_TOLD_BEFORE.get(finding.reason) for finding in before}
    return tuple(finding for finding in refusals if finding.reason not in told)


@dataclass(frozen=True, slots=True)
class ManifestJudge:
    """Asks the policies that a tier binds. One judge serves one pack for as long as that lives."""

    pack: Pack
    policies: dict[str, Policy] = field(default_factory=dict)

    def findings(self, plan: EndpointPlan) -> tuple[Finding, ...]:
        """Why the tenant cluster would refuse what it is to hold, in the order of the manifests; empty where it would
        not. Raises RejectedError for a template that does not render and for a policy that cannot be read."""
        names = self.pack.site.bound_policies(self.pack.catalog.tiers[plan.tier])
        if not names:
            return ()
        bound = [self._policy(name, plan.tier) for name in names]
        return tuple(tree_findings(bound, self.pack.tenant_objects(plan), settings=self.settings(plan)))

    def settings(self, plan: EndpointPlan) -> Object:
        """The ConfigMap that the policies of the plan's tenant cluster read, as it is published with the tier."""
        tier, site = self.pack.catalog.tiers[plan.tier], self.pack.site
        data = {
            "domain": plan.address.tenant_domain,
            "registries": "\n".join(site.image_registries(self.pack.catalog.images, tier)),
            "runtimeClass": "vnode" if tier.isolation is Isolation.VNODE else "",
            "tenant": plan.placement.parameters["tenant"],
        }
        metadata = {"name": SETTINGS, "namespace": SETTINGS}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def read_policies(self) -> None:
        """Read what every tier binds now, which is quicker than at the first question. Raises RejectedError for a
        policy that cannot be read."""
        for tier in self.pack.catalog.tiers.values():
            for name in tier.policies:
                self._policy(name, tier.name)

    def _policy(self, name: str, tier: str) -> Policy:
        if name not in self.policies:
            path = self.pack.files.find(f"{_FOLDER}/{name}/policy.yaml")
            if path is None:
                raise self._unknown(name, tier)
            self.policies[name] = load_policy(path)
        return self.policies[name]

    def _unknown(self, name: str, tier: str) -> RejectedError:
        roots = self.pack.files.roots
        known = {path.parent.name for root in roots for path in (root / _FOLDER).glob("*/policy.yaml")}
        message = f"reading policies of tier `{tier}`: there is none called: `{name}`"
        hint = unknown_name_hint(name, known)
        file = f"templates/{tier}/tier.yaml"
        finding = Finding(reason="UnknownPolicy", message=message, field="policies", hint=hint, file=file)
        return RejectedError(message, reason="UnknownPolicy", hint=hint, findings=(finding,))


def tree_findings(policies: Iterable[Policy], objects: Iterable[Object], *, settings: Object) -> Iterator[Finding]:
    """What the policies say to objects that are created together, each finding with the object it is about.

    A policy that looks at pods alone is asked about the pods that a workload describes.

    Args:
        policies: the bound policies.
        objects: manifests; Namespaces, NetworkPolicies and ResourceQuotas among them are taken into account.
        settings: the ConfigMap `tenantry-policy`.
    """
    world, bound = tuple(objects), tuple(policies)
    there = {(made.get("kind"), _namespace(made), _metadata(made).get("name")): made for made in world}
    for made in world:
        namespace = _namespace(made)
        labels = _metadata(there.get(("Namespace", None, namespace), {})).get("labels") or {}
        question = Question.of(made, namespace_labels=labels)
        pods = [Question.of(pod, namespace_labels=labels) for pod in _pods(made)]
        for policy in bound:
            kind = policy.param_kind or "ConfigMap"
            params = settings if kind == "ConfigMap" else there.get((kind, namespace, PARAMETERS[kind]))
            asked = [question] if policy.has_say(question) else pods
            denials = dict.fromkeys(found for one in asked for found in policy.answer(one, params))
            yield from (_told(denial, policy, made) for denial in denials)


def _told(denial: Finding, policy: Policy, made: Object) -> Finding:
    place = "/".join(filter(None, (_namespace(made), _metadata(made).get("name"))))
    title = f"{made.get('kind')} {place}"
    return replace(
        denial,
        reason="Policy" + "".join(word.capitalize() for word in policy.name.split("-")),
        message=f"asking policy `{policy.name}` about {title}: {denial.message}",
        hint=denial.hint or f"change what is rendered; the policy refuses: {policy.refuses}",
        object=title,
    )


def _pods(made: Object) -> Iterator[Object]:
    """The pods that a workload describes, as it would create them but for their names."""
    for path in _TEMPLATES.get(str(made.get("kind")), ()):
        template: Any = made
        for key in path:
            template = template.get(key) if isinstance(template, Mapping) else None
        if isinstance(template, Mapping):
            metadata = {**_metadata(template), "name": _metadata(made).get("name"), "namespace": _namespace(made)}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


def _metadata(made: Object) -> Object:
    metadata = made.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _namespace(made: Object) -> Any:
    return _metadata(made).get("namespace")
